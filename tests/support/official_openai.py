"""The `openai` package: Chat Completions."""

import re
from collections.abc import Iterator
from typing import Any

from official import Said, SaidCall, pieces
from openai import AsyncOpenAI, LengthFinishReasonError
from openai.types import CompletionUsage
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
)
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import (
    Choice as Piece,
)
from openai.types.chat.chat_completion_chunk import (
    ChoiceDelta,
    ChoiceDeltaToolCall,
    ChoiceDeltaToolCallFunction,
)
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from pydantic import BaseModel
from typed_json import problems


class OpenAi:
    style = "openai"
    refused = "refusal"

    def problems(self, body: dict[str, Any]) -> list[str]:
        kind = CompletionCreateParamsStreaming if body.get("stream") else CompletionCreateParamsNonStreaming
        return [line for line in problems(body, kind) if not re.search(ECHOED, line)]

    def reply(self, said: Said) -> BaseModel:
        calls = [
            ChatCompletionMessageFunctionToolCall(
                id=call.id, type="function", function=Function(name=call.name, arguments=call.arguments)
            )
            for call in said.calls
        ]
        is_refusal = said.stop == "refusal"
        message = ChatCompletionMessage(
            role="assistant",
            content=None if is_refusal else said.text,
            refusal=said.text if is_refusal else None,
            tool_calls=calls or None,
            **self._thought(said),
        )
        choice = Choice(index=0, message=message, finish_reason=self._stop(said))
        return ChatCompletion(
            id="chatcmpl-1", object="chat.completion", created=1, model="m-1", choices=[choice], usage=self._usage()
        )

    def events(self, said: Said) -> Iterator[tuple[str | None, BaseModel | str]]:
        yield None, self._chunk(ChoiceDelta(role="assistant", content=""))
        if said.thought:
            for piece in pieces(said.thought):
                yield None, self._chunk(ChoiceDelta(reasoning_content=piece))
        for piece in pieces(said.text):
            is_refusal = said.stop == "refusal"
            yield None, self._chunk(ChoiceDelta(refusal=piece) if is_refusal else ChoiceDelta(content=piece))
        for index, call in enumerate(said.calls):
            begun = ChoiceDeltaToolCallFunction(name=call.name, arguments="")
            yield None, self._call(ChoiceDeltaToolCall(index=index, id=call.id, type="function", function=begun))
            for piece in pieces(call.arguments):
                more = ChoiceDeltaToolCallFunction(arguments=piece)
                yield None, self._call(ChoiceDeltaToolCall(index=index, function=more))
        yield None, self._chunk(ChoiceDelta(), self._stop(said))
        yield None, ChatCompletionChunk(**self._frame(), choices=[], usage=self._usage())
        yield None, "[DONE]"

    async def read(self, url: str) -> Said:
        async with AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
            read = await client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])
        return self._said(read)

    async def read_stream(self, url: str) -> Said:
        async with (
            AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client,
            client.chat.completions.stream(model="m-1", messages=[{"role": "user", "content": "hi"}]) as stream,
        ):
            try:
                return self._said(await stream.get_final_completion())
            except LengthFinishReasonError as cut:
                return self._said(cut.completion)

    def _said(self, read: ChatCompletion) -> Said:
        message = read.choices[0].message
        calls = [call for call in message.tool_calls or [] if call.type == "function"]
        return Said(
            message.refusal or message.content or "",
            tuple(SaidCall(call.id, call.function.name, call.function.arguments) for call in calls),
            getattr(message, "reasoning_content", None) or "",
            "refusal" if message.refusal else "length" if read.choices[0].finish_reason == "length" else "",
        )

    def _call(self, call: ChoiceDeltaToolCall) -> ChatCompletionChunk:
        return self._chunk(ChoiceDelta(tool_calls=[call]))

    def _chunk(self, delta: ChoiceDelta, stop: str | None = None) -> ChatCompletionChunk:
        return ChatCompletionChunk(**self._frame(), choices=[Piece(index=0, delta=delta, finish_reason=stop)])

    def _frame(self) -> dict[str, object]:
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}

    def _thought(self, said: Said) -> dict[str, str]:
        return {"reasoning_content": said.thought} if said.thought else {}

    def _stop(self, said: Said) -> str:
        if said.stop == "length":
            return "length"
        return "tool_calls" if said.calls else "stop"

    def _usage(self) -> CompletionUsage:
        return CompletionUsage(
            prompt_tokens=20,
            completion_tokens=7,
            total_tokens=27,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=8),
            completion_tokens_details=CompletionTokensDetails(reasoning_tokens=2),
        )


ECHOED = r"\.reasoning_content: no key of ChatCompletionAssistantMessageParam"
"""Servers that imitate this one give it, and some want it back."""
