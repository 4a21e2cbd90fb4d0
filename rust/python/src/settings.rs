//! The settings of a client as Python gives them, checked there, and what is known of servers.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use toolrelay_core::json::Json;
use toolrelay_core::wire::profile::{NAMES, Profile};
use toolrelay_core::wire::{Style, ToolChoice};
use toolrelay_runtime::http::{HttpOptions, HttpTransport};
use toolrelay_runtime::http_model::{HttpModel, HttpModelConfig};
use toolrelay_runtime::retry::RetryPolicy;

use crate::{convert, errors};

/// The model that a dict of settings describes.
pub(crate) fn http_model(settings: &Bound<'_, PyDict>, system: Option<String>) -> PyResult<HttpModel> {
    let py = settings.py();
    let need = |key: &str| settings.as_any().get_item(key);
    let time = |key: &str| seconds(py, key, need(key)?.extract()?);
    let style: String = need("style")?.extract()?;
    let params: Vec<(String, String)> = need("params")?.extract()?;
    let read = |(key, json): (String, String)| match Json::parse(&json) {
        Ok(json) => Ok((key, json)),
        Err(error) => Err(errors::raise(py, "ConfigurationError", &format!("request_params[{key:?}]: {error}"))),
    };
    let style = serde_json::from_value::<Style>(style.as_str().into())
        .map_err(|_| errors::raise(py, "ConfigurationError", &format!("unknown style {style:?}")))?;
    let text = |key: &str| need(key)?.extract::<String>();
    let profile: Option<String> = need("profile")?.extract()?;
    let config = HttpModelConfig {
        headers: need("headers")?.extract()?,
        system,
        params: params.into_iter().map(read).collect::<PyResult<_>>()?,
        tool_choice: need("tool_choice")?.extract::<Option<(String, String)>>()?.map(tool_choice),
        parallel_tool_calls: need("parallel_tool_calls")?.extract()?,
        profile: profile
            .as_deref()
            .map(|json| convert::read(py, "the profile", json.as_bytes()))
            .transpose()?
            .map(Arc::new),
        prompt_cache: need("prompt_cache")?.extract()?,
        retry: RetryPolicy { retries: need("retries")?.extract()?, ..RetryPolicy::default() },
        progress_timeout: time("progress_timeout")?,
        ..HttpModelConfig::new(style, text("base_url")?, text("model")?, text("api_key")?)
    };
    let options = HttpOptions {
        connect_timeout: time("connect_timeout")?,
        read_timeout: time("read_timeout")?,
        ..HttpOptions::default()
    };
    HttpModel::new(config, Arc::new(HttpTransport::new(options)))
        .map_err(|error| errors::raise(py, "ConfigurationError", &error.to_string()))
}

/// A kind of choice, and the tool where it names one.
pub(crate) fn tool_choice((kind, tool): (String, String)) -> ToolChoice {
    match kind.as_str() {
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        "tool" => ToolChoice::Tool(tool),
        _ => ToolChoice::Auto,
    }
}

pub(crate) fn seconds(py: Python<'_>, name: &str, value: f64) -> PyResult<Duration> {
    let positive = Duration::try_from_secs_f64(value).ok().filter(|duration| !duration.is_zero());
    let text = || format!("{name} must be a positive number of seconds, not {value}");
    positive.ok_or_else(|| errors::raise(py, "ConfigurationError", &text()))
}

/// The servers that are known by name: name, style, and the profile as JSON.
#[pyfunction]
pub(crate) fn _known_servers(py: Python<'_>) -> PyResult<Vec<(&'static str, &'static str, Bound<'_, PyAny>)>> {
    let known = NAMES.iter().filter_map(|name| Profile::named(name).map(|(style, profile)| (*name, style, profile)));
    known.map(|(name, style, profile)| Ok((name, style.as_str(), convert::write(py, &profile)?.into_any()))).collect()
}
