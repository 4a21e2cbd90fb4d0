"""The `anthropic` package: Messages."""

import json
import re
from collections.abc import Iterator
from typing import Any

from anthropic import AsyncAnthropic
from anthropic.types import (
    ContentBlock,
    InputJSONDelta,
    Message,
    MessageDeltaUsage,
    OutputTokensDetails,
    RawContentBlockDelta,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RedactedThinkingBlock,
    SignatureDelta,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
    Usage,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from anthropic.types.raw_message_delta_event import Delta
from official import Said, SaidCall, pieces
from pydantic import BaseModel
from typed_json import problems

STOPS = {"length": "max_tokens", "refusal": "refusal"}


class Anthropic:
    style = "anthropic"
    refused = "refusal"

    def problems(self, body: dict[str, Any]) -> list[str]:
        kind = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
        return [line for line in problems(body, kind) if not re.search(ECHOED, line)]

    def reply(self, said: Said) -> Message:
        content = [block for block, _ in self._blocks(said)]
        return self._message(content, self._stop(said), Usage(**self._usage(), cache_creation=None))

    def events(self, said: Said) -> Iterator[tuple[str | None, BaseModel | str]]:
        opened = self._message([], None, Usage(**{**self._usage(), "output_tokens": 1}))
        for data in self._events(said, opened):
            yield data.type, data

    async def read(self, url: str) -> Said:
        async with AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
            return self._said(await client.messages.create(**ASKED))

    async def read_stream(self, url: str) -> Said:
        async with (
            AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client,
            client.messages.stream(**ASKED) as stream,
        ):
            return self._said(await stream.get_final_message())

    def _said(self, read: Message) -> Said:
        words = {word: stop for stop, word in STOPS.items()}
        return Said(
            "".join(block.text for block in read.content if block.type == "text"),
            tuple(
                SaidCall(block.id, block.name, json.dumps(block.input))
                for block in read.content
                if block.type == "tool_use"
            ),
            "".join(block.thinking for block in read.content if block.type == "thinking"),
            words.get(read.stop_reason or "", ""),
        )

    def _blocks(self, said: Said) -> Iterator[tuple[ContentBlock, list[RawContentBlockDelta]]]:
        """Each block as it is at last, and the deltas that make it."""
        if said.thought:
            signed: list[RawContentBlockDelta] = [SignatureDelta(type="signature_delta", signature="c2ln")]
            deltas = [ThinkingDelta(type="thinking_delta", thinking=piece) for piece in pieces(said.thought)]
            yield ThinkingBlock(type="thinking", thinking=said.thought, signature="c2ln"), deltas + signed
            yield RedactedThinkingBlock(type="redacted_thinking", data="ZW5j"), []
        if said.text:
            texts: list[RawContentBlockDelta] = [
                TextDelta(type="text_delta", text=piece) for piece in pieces(said.text)
            ]
            yield TextBlock(type="text", text=said.text), texts
        for call in said.calls:
            written: list[RawContentBlockDelta] = [
                InputJSONDelta(type="input_json_delta", partial_json=piece) for piece in pieces(call.arguments)
            ]
            yield ToolUseBlock(type="tool_use", id=call.id, name=call.name, input=json.loads(call.arguments)), written

    def _events(self, said: Said, opened: Message) -> Iterator[Any]:
        yield RawMessageStartEvent(type="message_start", message=opened)
        for index, (block, deltas) in enumerate(self._blocks(said)):
            empty = {"text": "", "thinking": "", "signature": "", "input": {}}
            begun = block.model_copy(update={key: value for key, value in empty.items() if hasattr(block, key)})
            yield RawContentBlockStartEvent(type="content_block_start", index=index, content_block=begun)
            for delta in deltas:
                yield RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
            yield RawContentBlockStopEvent(type="content_block_stop", index=index)
        usage = MessageDeltaUsage(**self._usage())
        yield RawMessageDeltaEvent(type="message_delta", delta=Delta(stop_reason=self._stop(said)), usage=usage)
        yield RawMessageStopEvent(type="message_stop")

    def _message(self, content: list[ContentBlock], stop: Any, usage: Usage) -> Message:
        return Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="m-1",
            content=content,
            stop_reason=stop,
            stop_sequence=None,
            usage=usage,
        )

    def _stop(self, said: Said) -> str:
        return STOPS[said.stop] if said.stop else "tool_use" if said.calls else "end_turn"

    def _usage(self) -> dict[str, Any]:
        """Twenty tokens in, of which eight were cached: the provider counts these apart."""
        return {
            "input_tokens": 12,
            "output_tokens": 7,
            "cache_read_input_tokens": 8,
            "output_tokens_details": OutputTokensDetails(thinking_tokens=2),
        }


ECHOED = r"\.caller: NoneType is no object"
"""What gives this null gets it back."""
ASKED: dict[str, Any] = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
