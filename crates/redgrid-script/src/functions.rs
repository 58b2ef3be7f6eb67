//! The libraries of functions that servers keep.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{Client, FromReply, NodeId, Reply, Request, ServerError};

use crate::error::CallError;
use crate::function::Library;
use crate::scripts::{ForgetAll, kill, on_primaries};

/// The libraries of a client's servers (Redis 7.0 or newer, Valkey; others end [`CallError::Unsupported`]). Replicas have them from their
/// primaries; what is changed is changed on every primary.
#[derive(Debug, Clone)]
pub struct Functions {
    client: Client,
}

/// A library that servers have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryInfo {
    /// Its name.
    pub name: String,
    /// The engine, as `LUA`.
    pub engine: String,
    /// Its functions, by name.
    pub functions: Vec<FunctionInfo>,
    /// Its code.
    pub code: String,
    /// The primaries that have it so. Where others have it otherwise, they are another entry.
    pub nodes: Vec<NodeId>,
}

/// A function that servers have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// Its name.
    pub name: String,
    /// What its author says of it.
    pub description: Option<String>,
    /// What it may do, as `no-writes`.
    pub flags: Vec<String>,
}

/// What a primary says of its functions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionStats {
    /// What it is running.
    pub running: Option<Running>,
    /// How many libraries and functions it has.
    pub counts: (u64, u64),
}

/// A function that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// Its name.
    pub name: String,
    /// For how long.
    pub time: Duration,
}

/// What becomes of the libraries that are there when others are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restoring {
    /// They stay; where one has the name of one to restore, nothing is restored.
    #[default]
    Beside,
    /// Those that have the name of one to restore are replaced.
    #[doc(alias = "restoreAndReplace")]
    Replacing,
    /// All of them go.
    #[doc(alias = "restoreAfterFlush")]
    Instead,
}

impl Functions {
    /// The functions of a client's servers.
    pub fn new(client: &Client) -> Self {
        Functions { client: client.clone() }
    }

    /// Has every primary keep a library. One that has another of that name refuses.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have it.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn load(&self, library: &Library) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "LOAD").arg(library.code().clone());
        let answers = on_primaries::<()>(&self.client, "FUNCTION LOAD", request).await?.into_answers();
        let mut refused = None;
        let mut has_one = Vec::new();
        for (node, answer) in answers {
            match answer {
                Ok(()) => {}
                // It may be the very same.
                Err(CallError::Refused { what, source: ServerError::Refused { code, message } })
                    if message.contains("already exists") =>
                {
                    refused = Some(CallError::Refused { what, source: ServerError::Refused { code, message } });
                    has_one.push(node);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(refused) = refused else { return Ok(()) };
        // The pattern knows no case.
        let same = |found: &LibraryInfo| found.name == library.name() && found.code.as_bytes() == &library.code()[..];
        let found = self.list_of(Some(library.name())).await?;
        match has_one.iter().all(|node| found.iter().any(|found| same(found) && found.nodes.contains(node))) {
            true => Ok(()),
            false => Err(refused),
        }
    }

    /// Has every primary keep a library, in the place of one of that name where there is one.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have it.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "loadAndReplace")]
    pub async fn replace(&self, library: &Library) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "LOAD").arg("REPLACE").arg(library.code().clone()).idempotent();
        self.everywhere("FUNCTION LOAD", request).await
    }

    /// The libraries of all primaries, by name.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn list(&self) -> Result<Vec<LibraryInfo>, CallError> {
        self.list_of(None).await
    }

    /// The same of those whose name matches `pattern`, with `*` and `?`.
    ///
    /// # Errors
    ///
    /// As [`Functions::list`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "list")]
    pub async fn list_matching(&self, pattern: &str) -> Result<Vec<LibraryInfo>, CallError> {
        self.list_of(Some(pattern)).await
    }

    async fn list_of(&self, pattern: Option<&str>) -> Result<Vec<LibraryInfo>, CallError> {
        let what = "FUNCTION LIST";
        let mut request = Request::subcommand("FUNCTION", "LIST").idempotent();
        if let Some(pattern) = pattern {
            request = request.arg("LIBRARYNAME").arg(pattern.to_owned());
        }
        let answers = on_primaries::<Vec<Reply>>(&self.client, what, request.arg("WITHCODE")).await?;
        let mut found: BTreeMap<(String, String), LibraryInfo> = BTreeMap::new();
        for (node, answer) in answers.into_answers() {
            for library in answer? {
                let library = library_of(library).map_err(|source| CallError::of(what, source))?;
                let known = found.entry((library.name.clone(), library.code.clone())).or_insert(library);
                known.nodes.push(node.clone());
            }
        }
        Ok(found.into_values().collect())
    }

    /// Has every primary forget a library; tells whether any had it.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have forgotten it.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self, library: &str) -> Result<bool, CallError> {
        let request = Request::subcommand("FUNCTION", "DELETE").arg(library.to_owned());
        let mut had = false;
        for (_, answer) in on_primaries::<()>(&self.client, "FUNCTION DELETE", request).await?.into_answers() {
            match answer {
                Ok(()) => had = true,
                Err(CallError::Refused { source: ServerError::Refused { message, .. }, .. })
                    if message.contains("Library not found") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(had)
    }

    /// Has every primary forget all libraries, those of others too.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have forgotten them.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn flush(&self, _all: ForgetAll) -> Result<(), CallError> {
        self.everywhere("FUNCTION FLUSH", Request::subcommand("FUNCTION", "FLUSH").idempotent()).await
    }

    /// All libraries of one of the primaries, as bytes that [`Functions::restore`] takes.
    ///
    /// # Errors
    ///
    /// [`CallError`] says what stood in the way.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn dump(&self) -> Result<Bytes, CallError> {
        let what = "FUNCTION DUMP";
        let request = Request::subcommand("FUNCTION", "DUMP").idempotent();
        let answers = on_primaries::<Bytes>(&self.client, what, request).await?.into_answers();
        let nobody = CallError::Unsupported { what: what.into(), needs: "a primary" };
        answers.into_iter().next().map_or(Err(nobody), |(_, dump)| dump)
    }

    /// Has every primary keep the libraries of a [`Functions::dump`].
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries; others may have them.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "restoreAndReplace")]
    #[doc(alias = "restoreAfterFlush")]
    pub async fn restore(&self, dump: Bytes, how: Restoring) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "RESTORE").arg(dump);
        let request = match how {
            Restoring::Beside => request.arg("APPEND"),
            Restoring::Replacing => request.arg("REPLACE").idempotent(),
            Restoring::Instead => request.arg("FLUSH").idempotent(),
        };
        self.everywhere("FUNCTION RESTORE", request).await
    }

    /// What each primary is running, and how much it keeps.
    ///
    /// # Errors
    ///
    /// [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn stats(&self) -> Result<Vec<(NodeId, FunctionStats)>, CallError> {
        let what = "FUNCTION STATS";
        let request = Request::subcommand("FUNCTION", "STATS").idempotent();
        let answers = on_primaries::<HashMap<String, Reply>>(&self.client, what, request).await?;
        let read = |(node, answer): (NodeId, Result<_, CallError>)| {
            let stats = stats_of(answer?).map_err(|source| CallError::of(what, source))?;
            Ok((node, stats))
        };
        answers.into_answers().into_iter().map(read).collect()
    }

    /// Has the primaries end the functions that they are running, if those have written nothing yet. Tells where one was ended. It goes by
    /// a connection of its own, as it would queue behind a function of this client.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] where a function has written something: it goes on.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn kill(&self) -> Result<Vec<NodeId>, CallError> {
        kill(&self.client, "FUNCTION").await
    }

    async fn everywhere(&self, what: &str, request: Request) -> Result<(), CallError> {
        on_primaries::<()>(&self.client, what, request).await?.reduce((), |(), ()| ())
    }
}

type Fields = HashMap<String, Reply>;

fn field<T: FromReply>(fields: &mut Fields, name: &str) -> Result<T, ServerError> {
    T::from_reply(fields.remove(name).unwrap_or(Reply::Nil))
}

fn library_of(reply: Reply) -> Result<LibraryInfo, ServerError> {
    let mut fields = Fields::from_reply(reply)?;
    let functions: Vec<Fields> = field(&mut fields, "functions")?;
    let mut functions = functions.into_iter().map(function_of).collect::<Result<Vec<_>, _>>()?;
    functions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(LibraryInfo {
        name: field(&mut fields, "library_name")?,
        engine: field(&mut fields, "engine")?,
        functions,
        code: field(&mut fields, "library_code")?,
        nodes: Vec::new(),
    })
}

fn function_of(mut fields: Fields) -> Result<FunctionInfo, ServerError> {
    let name = field(&mut fields, "name")?;
    let description = field::<Option<String>>(&mut fields, "description")?.filter(|text| !text.is_empty());
    Ok(FunctionInfo { name, description, flags: field(&mut fields, "flags")? })
}

fn stats_of(mut fields: Fields) -> Result<FunctionStats, ServerError> {
    let running = match fields.remove("running_script") {
        None | Some(Reply::Nil) => None,
        Some(reply) => {
            let mut running = Fields::from_reply(reply)?;
            let time = Duration::from_millis(field(&mut running, "duration_ms")?);
            Some(Running { name: field(&mut running, "name")?, time })
        }
    };
    let engines: HashMap<String, Fields> = field(&mut fields, "engines")?;
    let mut counts = (0, 0);
    for mut engine in engines.into_values() {
        counts.0 += field::<u64>(&mut engine, "libraries_count")?;
        counts.1 += field::<u64>(&mut engine, "functions_count")?;
    }
    Ok(FunctionStats { running, counts })
}
