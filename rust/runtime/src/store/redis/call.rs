//! What is said to a server: a command, or a script by its digest.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, Script, ServerErrorKind, Value, cmd};

use super::super::remote::{Fault, Question};
use super::fault;
use super::line::Wire;

/// A call. All its keys are in one slot.
pub(super) enum Call<'s> {
    /// All fields of the hash at a key.
    Fields { key: String },
    /// A script on these keys.
    Script { script: &'static Lua, keys: Vec<String>, arguments: Vec<Cow<'s, [u8]>> },
}

/// A script and its digest.
pub(super) struct Lua {
    source: &'static str,
    digest: LazyLock<Script>,
}

/// A call as it is put to one server.
pub(super) struct Asked<'s> {
    pub(super) store: &'s str,
    pub(super) call: &'s Call<'s>,
    /// The slot is on its way to that server.
    pub(super) is_asking: bool,
    /// It was put before, and no answer came.
    pub(super) lost: &'s AtomicBool,
}

/// What was said to a call in the end.
pub(super) struct Said {
    pub(super) value: Value,
    /// It was put before, and no answer came: it may have been done then.
    pub(super) again: bool,
}

/// What a server says.
#[derive(Debug)]
pub(super) enum Answer {
    Value(Value),
    /// Another one has the slot, from now on.
    Moved {
        to: String,
    },
    /// Another one has the keys already, while the slot is moving.
    Elsewhere {
        to: String,
    },
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+) => {
        $(pub(super) static $name: Lua =
            Lua { source: include_str!($file), digest: LazyLock::new(|| Script::new(include_str!($file))) };)+
    };
}
scripts!(
    COMMIT = "commit.lua",
    DELETE = "delete.lua",
    LEASES = "leases.lua",
    LOOK = "look.lua",
    OPEN = "open.lua",
    PAGE = "page.lua"
);

impl Call<'_> {
    /// A key, which tells the slot.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Fields { key } => key,
            Self::Script { keys, .. } => keys.first().map_or("", String::as_str),
        }
    }

    /// The command. A server that does not know a script is told it whole.
    fn command(&self, whole: bool) -> Cmd {
        match self {
            Self::Fields { key } => cmd("HGETALL").arg(key).to_owned(),
            Self::Script { script, keys, arguments } => {
                let bytes = arguments.iter().map(|argument| argument.len()).sum::<usize>();
                let mut command = Cmd::with_capacity(keys.len() + arguments.len() + 3, bytes + script.source.len());
                if whole {
                    command.arg("EVAL").arg(script.source);
                } else {
                    command.arg("EVALSHA").arg(script.digest.get_hash());
                }
                command.arg(keys.len());
                for key in keys {
                    command.arg(key);
                }
                for argument in arguments {
                    command.arg(argument.as_ref());
                }
                command
            }
        }
    }
}

#[async_trait]
impl Question<Wire> for Asked<'_> {
    type Answer = Answer;

    async fn ask(&self, wire: &mut Wire) -> Result<Answer, Fault> {
        let answered = match self.send(wire, false).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => self.send(wire, true).await,
            answered => answered,
        };
        let error = match answered {
            Ok(value) => return Ok(Answer::Value(value)),
            Err(error) => error,
        };
        if error.code().is_none() {
            self.lost.store(true, Ordering::Relaxed);
        }
        match (error.kind(), error.redirect_node()) {
            (ErrorKind::Server(ServerErrorKind::Moved), Some((to, _))) => Ok(Answer::Moved { to: to.into() }),
            (ErrorKind::Server(ServerErrorKind::Ask), Some((to, _))) => Ok(Answer::Elsewhere { to: to.into() }),
            _ => Err(fault::of(self.store, &error)),
        }
    }
}

impl Asked<'_> {
    async fn send(&self, wire: &mut Wire, whole: bool) -> Result<Value, RedisError> {
        let command = self.call.command(whole);
        if !self.is_asking {
            return wire.connection.send_packed_command(&command).await?.extract_error();
        }
        let mut both = Pipeline::with_capacity(2);
        both.cmd("ASKING").add_command(command);
        let said = wire.connection.send_packed_commands(&both, 1, 1).await?;
        said.into_iter().next().unwrap_or_default().extract_error()
    }
}
