"""The `google-genai` package: generateContent."""

import json
from collections.abc import Iterator
from typing import Any

from google.genai import Client, types
from official import Said, SaidCall, pieces
from pydantic import BaseModel, TypeAdapter, ValidationError

BODY: dict[str, TypeAdapter[Any]] = {
    "contents": TypeAdapter(list[types.Content]),
    "systemInstruction": TypeAdapter(types.Content),
    "tools": TypeAdapter(list[types.Tool]),
    "toolConfig": TypeAdapter(types.ToolConfig),
    "generationConfig": TypeAdapter(types.GenerationConfig),
    "safetySettings": TypeAdapter(list[types.SafetySetting]),
    "cachedContent": TypeAdapter(str),
}
"""The keys of a request. These models refuse keys that they do not know."""


class Gemini:
    style = "gemini"
    refused = "content_filter"

    def problems(self, body: dict[str, Any]) -> list[str]:
        told = [f"$.{key}: no key of a request" for key in body if key not in BODY]
        told += [] if "contents" in body else ["$.contents: missing"]
        for key in BODY.keys() & body.keys():
            try:
                read = BODY[key].validate_python(body[key])
            except ValidationError as error:
                told += [f"$.{key}.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            else:
                again = BODY[key].dump_python(read, mode="json", by_alias=True, exclude_none=True)
                told += [] if plain(again) == plain(body[key]) else [f"$.{key}: reads as {again}"]
        return told

    async def send_again(self, url: str, body: dict[str, Any]) -> None:
        """Makes a request with the package's own client, which knows what this API does not take."""
        config = types.GenerateContentConfig(
            system_instruction=_read("systemInstruction", body),
            tools=_read("tools", body),
            tool_config=_read("toolConfig", body),
            **body.get("generationConfig", {}),
        )
        async with self._client(url).aio as client:
            await client.models.generate_content(model="m-1", contents=_read("contents", body), config=config)

    def reply(self, said: Said) -> BaseModel:
        return self._response(list(self._parts(said)), self._stop(said))

    def events(self, said: Said) -> Iterator[tuple[str | None, BaseModel | str]]:
        parts: list[types.Part] = []
        for part in self._parts(said):
            texts = [None] if part.text is None else pieces(part.text)
            parts += [part if text is None else types.Part(text=text, thought=part.thought) for text in texts]
        for part in parts[:-1]:
            yield None, self._response([part], None)
        yield None, self._response(parts[-1:], self._stop(said))

    async def read(self, url: str) -> Said:
        async with self._client(url).aio as client:
            return self._said([await client.models.generate_content(model="m-1", contents="hi")])

    async def read_stream(self, url: str) -> Said:
        async with self._client(url).aio as client:
            stream = await client.models.generate_content_stream(model="m-1", contents="hi")
            return self._said([chunk async for chunk in stream])

    def _client(self, url: str) -> Client:
        return Client(api_key="k", http_options=types.HttpOptions(base_url=url))

    def _said(self, read: list[types.GenerateContentResponse]) -> Said:
        candidates = [candidate for one in read for candidate in one.candidates or []]
        parts = [part for one in candidates for part in (one.content and one.content.parts) or []]
        calls = [part.function_call for part in parts if part.function_call]
        stops = {"MAX_TOKENS": "length", "SAFETY": "refusal"}
        reason = candidates[-1].finish_reason
        return Said(
            "".join(part.text or "" for part in parts if not part.thought),
            tuple(SaidCall(call.id or "", call.name or "", json.dumps(call.args)) for call in calls),
            "".join(part.text or "" for part in parts if part.thought),
            stops.get(reason.value if reason else "", ""),
        )

    def _parts(self, said: Said) -> Iterator[types.Part]:
        if said.thought:
            yield types.Part(text=said.thought, thought=True)
        if said.text:
            yield types.Part(text=said.text)
        for number, call in enumerate(said.calls):
            made = types.FunctionCall(id=call.id, name=call.name, args=json.loads(call.arguments))
            signature = b"sign" if said.thought and number == 0 else None
            yield types.Part(function_call=made, thought_signature=signature)

    def _response(self, parts: list[types.Part], stop: types.FinishReason | None) -> types.GenerateContentResponse:
        content = types.Content(role="model", parts=parts)
        return types.GenerateContentResponse(
            candidates=[types.Candidate(content=content, finish_reason=stop, index=0)],
            model_version="m-1",
            response_id="r-1",
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=20,
                cached_content_token_count=8,
                candidates_token_count=5,
                thoughts_token_count=2,
                total_token_count=27,
            ),
        )

    def _stop(self, said: Said) -> types.FinishReason:
        stops = {"length": types.FinishReason.MAX_TOKENS, "refusal": types.FinishReason.SAFETY}
        return stops.get(said.stop, types.FinishReason.STOP)


def _read(key: str, body: dict[str, Any]) -> Any:
    return BODY[key].validate_python(body[key]) if key in body else None


def plain(value: Any) -> Any:
    """Without what is a matter of spelling: an explicit null, the words of an enum in any case, base64 in either
    alphabet.
    """
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.upper().translate(BASE64) if isinstance(value, str) else value


BASE64 = str.maketrans("-_", "+/")
