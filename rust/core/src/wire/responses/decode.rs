//! Reading a Responses reply.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::own::Item;
use crate::reply::{Provider, Reply, ReplyCall, Stop, Usage};
use crate::wire::content::{Part, Shown, string};
use crate::wire::counts::Counts;
use crate::wire::failure::{FailureKind, ProviderFailure};
use crate::wire::{Style, malformed, unreadable};

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
}

/// Reads a reply whose escapes are mended.
pub(in crate::wire) fn decode(body: &str) -> Result<Reply, ProviderFailure> {
    let response: Response<'_> = serde_json::from_str(body).map_err(|error| unreadable(&error))?;
    let status = string(response.status).unwrap_or_default();
    match status.as_ref() {
        "failed" => return Err(ProviderFailure::new(FailureKind::Server, "the reply failed without saying why")),
        "cancelled" => return Err(ProviderFailure::new(FailureKind::Server, "the reply was cancelled")),
        "queued" | "in_progress" => return Err(malformed(format!("the reply is not over, its status is {status}"))),
        _ => {}
    }
    let Some(output) = response.output else { return Err(malformed("the reply holds no output")) };
    let items: Vec<&RawValue> = serde_json::from_str(output.get()).map_err(|error| unreadable(&error))?;
    let said = Said::read(&items);
    let stop = match status.as_ref() {
        "incomplete" => said.cut(response.incomplete_details),
        _ if said.refuses => Stop::Refused,
        _ if said.has_cut_call => Stop::Length,
        _ if said.calls.is_empty() => Stop::End,
        _ => Stop::Calls,
    };
    let provider = Provider { style: Style::OpenAiResponses, raw: output.get().to_owned(), paused: false };
    Ok(Reply {
        text: said.text,
        calls: said.calls,
        reasoned: said.reasoned,
        stop,
        usage: usage(&Counts::read(response.usage)),
        model: string(response.model).map(Cow::into_owned),
        provider: (!items.is_empty()).then_some(provider),
    })
}

/// What the items of a reply say.
#[derive(Default)]
struct Said {
    /// With the words of a refusal, in order.
    text: String,
    refuses: bool,
    calls: Vec<ReplyCall>,
    reasoned: bool,
    /// Whether the provider says of a call that it was cut.
    has_cut_call: bool,
}

impl Said {
    fn read(items: &[&RawValue]) -> Self {
        let mut said = Self::default();
        for item in items.iter().map(|item| Item::read(item)) {
            match item.kind.as_ref() {
                "message" => said.message(item.get("content")),
                "function_call" => said.call(&item),
                "reasoning" => said.reasoned = true,
                _ => {}
            }
        }
        said
    }

    fn message(&mut self, content: Option<&RawValue>) {
        let parts = match content.map(Shown::read) {
            None | Some(Shown::None) => return,
            Some(Shown::Text(_)) => return self.text.push_str(&string(content).unwrap_or_default()),
            Some(Shown::Parts(parts)) => parts,
        };
        for part in parts.into_iter().map(Part::read) {
            match part.kind.as_ref() {
                "output_text" | "text" => self.text.push_str(&string(part.text).unwrap_or_default()),
                "refusal" => {
                    self.refuses = true;
                    self.text.push_str(&string(part.refusal).unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// One call. Some servers give the arguments as an object (fault C5).
    fn call(&mut self, item: &Item<'_>) {
        self.has_cut_call |= item.text("status").is_some_and(|status| status == "incomplete");
        let arguments = match item.get("arguments") {
            None => String::new(),
            Some(value) => match string(Some(value)) {
                Some(text) => text.into_owned(),
                None if value.get() == "null" => String::new(),
                None => value.get().to_owned(),
            },
        };
        self.calls.push(ReplyCall {
            id: item.call_id().map(Cow::into_owned),
            name: item.text("name").unwrap_or_default().into_owned(),
            arguments,
        });
    }

    /// Why a reply is incomplete. A reason nobody knows stays a word, unless it cut a call (fault E3).
    fn cut(&self, details: Option<&RawValue>) -> Stop {
        #[derive(Default, Deserialize)]
        struct Details<'a> {
            #[serde(borrow, default)]
            reason: Option<&'a RawValue>,
        }
        let details: Details<'_> =
            details.and_then(|details| serde_json::from_str(details.get()).ok()).unwrap_or_default();
        let reason = string(details.reason).unwrap_or_default();
        match reason.as_ref() {
            "content_filter" => Stop::Filtered,
            "" | "max_output_tokens" => Stop::Length,
            _ if self.has_cut_call => Stop::Length,
            _ => Stop::Other(reason.into_owned()),
        }
    }
}

fn usage(counts: &Counts<'_>) -> Usage {
    let count = |key| counts.get(key).unwrap_or(0);
    let input = counts.nested("input_tokens_details");
    Usage {
        input_tokens: count("input_tokens"),
        output_tokens: count("output_tokens"),
        cached_tokens: input.get("cached_tokens").unwrap_or(0),
        cache_write_tokens: input.get("cache_write_tokens").unwrap_or(0),
        reasoning_tokens: counts.nested("output_tokens_details").get("reasoning_tokens").unwrap_or(0),
    }
}
