"""The `openai` package: Responses."""

from collections.abc import Iterator
from typing import Any

from official import Said, SaidCall, pieces
from openai import AsyncOpenAI
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseStreamEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel, TypeAdapter
from typed_json import problems

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


class Responses:
    style = "openai-responses"
    refused = "refusal"

    def problems(self, body: dict[str, Any]) -> list[str]:
        kind = ResponseCreateParamsStreaming if body.get("stream") else ResponseCreateParamsNonStreaming
        return problems(body, kind)

    def reply(self, said: Said) -> Response:
        return self._response(list(self._items(said)), said.stop)

    def events(self, said: Said) -> Iterator[tuple[str | None, BaseModel | str]]:
        for number, data in enumerate(self._events(said)):
            yield data["type"], EVENT.validate_python({**data, "sequence_number": number})

    async def read(self, url: str) -> Said:
        async with AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client:
            return self._said(await client.responses.create(model="m-1", input="hi"))

    async def read_stream(self, url: str) -> Said:
        async with (
            AsyncOpenAI(base_url=url + "/v1", api_key="k", max_retries=0) as client,
            client.responses.stream(model="m-1", input="hi") as stream,
        ):
            responses = [event.response async for event in stream if event.type in ENDS]
            return self._said(responses[0])

    def _said(self, read: Response) -> Said:
        parts = [part for item in read.output if item.type == "message" for part in item.content]
        refusals = [part.refusal for part in parts if part.type == "refusal"]
        thoughts = [summary.text for item in read.output if item.type == "reasoning" for summary in item.summary]
        return Said(
            "".join(refusals) or read.output_text,
            tuple(
                SaidCall(item.call_id, item.name, item.arguments)
                for item in read.output
                if item.type == "function_call"
            ),
            "".join(thoughts),
            "refusal" if refusals else "length" if read.status == "incomplete" else "",
        )

    def _items(self, said: Said) -> Iterator[ResponseOutputItem]:
        status = "incomplete" if said.stop == "length" else "completed"
        if said.thought:
            summary = [Summary(type="summary_text", text=said.thought)]
            yield ResponseReasoningItem(id="rs_1", type="reasoning", summary=summary, encrypted_content="q0")
        if said.text:
            part = (
                ResponseOutputRefusal(type="refusal", refusal=said.text)
                if said.stop == "refusal"
                else ResponseOutputText(type="output_text", text=said.text, annotations=[], logprobs=[])
            )
            yield ResponseOutputMessage(id="msg_1", type="message", role="assistant", status=status, content=[part])
        for number, call in enumerate(said.calls, 1):
            yield ResponseFunctionToolCall(
                id=f"fc_{number}",
                type="function_call",
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
                status=status,
            )

    def _events(self, said: Said) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": self._begun()}
        yield {"type": "response.in_progress", "response": self._begun()}
        for index, item in enumerate(self._items(said)):
            place = {"output_index": index, "item_id": item.id}
            begun = {"reasoning": {"summary": []}, "message": {"content": []}, "function_call": {"arguments": ""}}
            opened = item.model_copy(update={**begun[item.type], "status": "in_progress"})
            yield {"type": "response.output_item.added", "output_index": index, "item": opened}
            match item:
                case ResponseReasoningItem():
                    yield from self._summary(item, place)
                case ResponseOutputMessage():
                    yield from self._part(item.content[0], place)
                case ResponseFunctionToolCall():
                    name = "response.function_call_arguments"
                    yield from ({"type": f"{name}.delta", **place, "delta": one} for one in pieces(item.arguments))
                    yield {"type": f"{name}.done", **place, "name": item.name, "arguments": item.arguments}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        ended = self.reply(said)
        yield {"type": f"response.{ended.status}", "response": ended}

    def _summary(self, item: ResponseReasoningItem, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
        place = {**place, "summary_index": 0}
        text = item.summary[0].text
        name = "response.reasoning_summary"
        yield {"type": f"{name}_part.added", **place, "part": {"type": "summary_text", "text": ""}}
        yield from ({"type": f"{name}_text.delta", **place, "delta": one} for one in pieces(text))
        yield {"type": f"{name}_text.done", **place, "text": text}
        yield {"type": f"{name}_part.done", **place, "part": {"type": "summary_text", "text": text}}

    def _part(
        self, part: ResponseOutputText | ResponseOutputRefusal, place: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        place = {**place, "content_index": 0}
        key, text, more = (
            ("refusal", part.refusal, {}) if part.type == "refusal" else ("text", part.text, {"logprobs": []})
        )
        name = "response.refusal" if key == "refusal" else "response.output_text"
        yield {"type": "response.content_part.added", **place, "part": part.model_copy(update={key: ""})}
        yield from ({"type": f"{name}.delta", **place, "delta": one, **more} for one in pieces(text))
        yield {"type": f"{name}.done", **place, key: text, **more}
        yield {"type": "response.content_part.done", **place, "part": part}

    def _begun(self) -> Response:
        return self._response([], "").model_copy(update={"status": "in_progress", "usage": None})

    def _response(self, output: list[ResponseOutputItem], stop: str) -> Response:
        is_cut = stop == "length"
        return Response(
            id="resp_1",
            object="response",
            created_at=1,
            model="m-1",
            output=output,
            status="incomplete" if is_cut else "completed",
            incomplete_details=IncompleteDetails(reason="max_output_tokens") if is_cut else None,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage(
                input_tokens=20,
                input_tokens_details=InputTokensDetails(cached_tokens=8, cache_write_tokens=0),
                output_tokens=7,
                output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
                total_tokens=27,
            ),
        )


ENDS = ("response.completed", "response.incomplete")
