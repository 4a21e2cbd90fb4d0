"""The model could not be called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolrelay.errors.base import ToolRelayError

if TYPE_CHECKING:
    from toolrelay.errors.base import Messages


class ProviderError(ToolRelayError):
    """The model could not be called, retries included.

    - `kind`: what happened in one word, such as `"rate_limited"`; a stable label for metrics.
    - `status`: the HTTP status, or None where there was no response.
    - `error_type`, `code`, `request_id`: the provider's own words for it.
    - `retryable`: whether the same request may work later; `retry_after`: seconds, if it said.
    - `partial_text`: the text of a streamed reply that broke off when some of it had been told; nothing of such a reply
      is in the transcript, and it was not asked for again. None where nothing had been told.
    """

    kind: str = "provider"

    def __init__(
        self,
        message: str = "",
        *,
        transcript: Messages | None = None,
        kind: str | None = None,
        status: int | None = None,
        error_type: str | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        partial_text: str | None = None,
    ) -> None:
        super().__init__(message, transcript=transcript)
        self.kind = kind or self.kind
        self.status = status
        self.error_type = error_type
        self.code = code
        self.request_id = request_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.partial_text = partial_text


class AuthenticationError(ProviderError):
    """The key is missing or wrong (HTTP 401)."""

    kind = "authentication"


class PermissionDeniedError(ProviderError):
    """The key is known but may not do this (HTTP 403)."""

    kind = "permission"


class ModelNotFoundError(ProviderError):
    """No such model, or no such address (HTTP 404)."""

    kind = "not_found"


class BadRequestError(ProviderError):
    """The provider refuses the request as it stands (HTTP 400, 422)."""

    kind = "bad_request"


class ContextOverflowError(BadRequestError):
    """The request is larger than the model reads, in tokens or in bytes."""

    kind = "context_overflow"


class ContentFilterError(BadRequestError):
    """A content filter refuses the request."""

    kind = "filtered"


class RateLimitError(ProviderError):
    """Too many requests or tokens for now (HTTP 429)."""

    kind = "rate_limited"


class QuotaError(RateLimitError):
    """The account's budget is spent; waiting does not help."""

    kind = "out_of_quota"


class OverloadedError(ProviderError):
    """The provider has too much to do (HTTP 503, 529)."""

    kind = "overloaded"


class ProviderServerError(ProviderError):
    """The provider failed (HTTP 5xx), or two requests got into each other's way (kind `conflict`)."""

    kind = "server"


class ProviderTimeoutError(ProviderError, TimeoutError):
    """No reply in time."""

    kind = "timeout"


class ProviderConnectionError(ProviderError, ConnectionError):
    """No connection, one that broke, or none possible as configured (kind `setup`)."""

    kind = "connection"


class ProviderReplyError(ProviderError):
    """A reply that cannot be read, or is larger than its limit (kind `too_large`)."""

    kind = "malformed"


class GenerateError(ProviderError):
    """The in-process model raised, or returned what is no reply. Its exception is the cause."""

    kind = "generate"
