//! The function libraries of the servers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::{Client, Failure, FromReply, NodeId, Reply, Request, ServerError};

use crate::error::CallError;
use crate::function::Library;
use crate::scripts::{ForgetAll, kill, on_primaries};

/// The function libraries of a client's servers.
///
/// Requires Redis 7.0 or newer, or Valkey; on other servers calls fail with
/// [`CallError::Unsupported`]. Changes are made on every primary, which replicates them.
#[derive(Debug, Clone)]
pub struct Functions {
    client: Client,
}

/// Information about a library on the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryInfo {
    /// The name of the library.
    pub name: String,
    /// The engine, such as `LUA`.
    pub engine: String,
    /// The functions, sorted by name.
    pub functions: Vec<FunctionInfo>,
    /// The code.
    pub code: String,
    /// The primaries that have this version. If other primaries have a different version, that
    /// version is a separate entry.
    pub nodes: Vec<NodeId>,
}

/// Information about a function on the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionInfo {
    /// The name of the function.
    pub name: String,
    /// The author's description.
    pub description: Option<String>,
    /// The flags, such as `no-writes`.
    pub flags: Vec<String>,
}

/// The function statistics of a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionStats {
    /// The running function, if any.
    pub running: Option<Running>,
    /// The numbers of libraries and of functions.
    pub counts: (u64, u64),
}

/// A running function.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The name of the function.
    pub name: String,
    /// The time for which it has been running.
    pub time: Duration,
}

/// The effect on existing libraries when a dump is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Restoring {
    /// The existing libraries are kept. If one has the name of a library to restore, nothing is
    /// restored.
    #[default]
    Beside,
    /// Existing libraries with the name of a library to restore are replaced.
    #[doc(alias = "restoreAndReplace")]
    Replacing,
    /// All existing libraries are removed.
    #[doc(alias = "restoreAfterFlush")]
    Instead,
}

impl Functions {
    /// Returns the functions of a client's servers.
    pub fn new(client: &Client) -> Self {
        Functions { client: client.clone() }
    }

    /// Loads a library into every primary. A primary refuses it if it has another library with the
    /// same name.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have loaded it.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn load(&self, library: &Library) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "LOAD").arg(library.code().clone());
        let results = on_primaries::<()>(&self.client, "FUNCTION LOAD", request).await?.into_answers();
        let mut refused = None;
        let mut existing = Vec::new();
        for (node, result) in results {
            match result {
                Ok(()) => {}
                // The refusal may be caused by the same library.
                Err(CallError::Failed(Failure::Refused {
                    operation,
                    source: ServerError::Refused { code, message },
                })) if message.contains("already exists") => {
                    let source = ServerError::Refused { code, message };
                    refused = Some(CallError::Failed(Failure::Refused { operation, source }));
                    existing.push(node);
                }
                Err(error) => return Err(error),
            }
        }
        let Some(refused) = refused else { return Ok(()) };
        // Compare the names, because the pattern of FUNCTION LIST ignores case.
        let is_same =
            |found: &LibraryInfo| found.name == library.name() && found.code.as_bytes() == &library.code()[..];
        let found = self.list_libraries(Some(library.name())).await?;
        if existing.iter().all(|node| found.iter().any(|found| is_same(found) && found.nodes.contains(node))) {
            Ok(())
        } else {
            Err(refused)
        }
    }

    /// Loads a library into every primary, and replaces an existing library with the same name.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have loaded it.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "loadAndReplace")]
    pub async fn replace(&self, library: &Library) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "LOAD").arg("REPLACE").arg(library.code().clone()).idempotent();
        self.run_on_all_nodes("FUNCTION LOAD", request).await
    }

    /// Returns the libraries of all primaries, sorted by name.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn list(&self) -> Result<Vec<LibraryInfo>, CallError> {
        self.list_libraries(None).await
    }

    /// Returns the libraries with names that match `pattern`, with `*` and `?`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Functions::list`].
    #[doc(alias = "list")]
    pub async fn list_matching(&self, pattern: impl AsRef<str>) -> Result<Vec<LibraryInfo>, CallError> {
        self.list_libraries(Some(pattern.as_ref())).await
    }

    async fn list_libraries(&self, pattern: Option<&str>) -> Result<Vec<LibraryInfo>, CallError> {
        let what = "FUNCTION LIST";
        let mut request = Request::subcommand("FUNCTION", "LIST").idempotent();
        if let Some(pattern) = pattern {
            request = request.arg("LIBRARYNAME").arg(pattern.to_owned());
        }
        let results = on_primaries::<Vec<Reply>>(&self.client, what, request.arg("WITHCODE")).await?;
        let mut found: BTreeMap<(String, String), LibraryInfo> = BTreeMap::new();
        for (node, result) in results.into_answers() {
            for library in result? {
                let library = parse_library(library).map_err(|source| CallError::of(what, source))?;
                let known = found.entry((library.name.clone(), library.code.clone())).or_insert(library);
                known.nodes.push(node.clone());
            }
        }
        Ok(found.into_values().collect())
    }

    /// Deletes a library from every primary, and returns whether any had it.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have removed it.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn delete(&self, library: impl Into<String>) -> Result<bool, CallError> {
        let request = Request::subcommand("FUNCTION", "DELETE").arg(library.into());
        let mut existed = false;
        for (_, result) in on_primaries::<()>(&self.client, "FUNCTION DELETE", request).await?.into_answers() {
            match result {
                Ok(()) => existed = true,
                Err(CallError::Failed(Failure::Refused { source: ServerError::Refused { message, .. }, .. }))
                    if message.contains("Library not found") => {}
                Err(error) => return Err(error),
            }
        }
        Ok(existed)
    }

    /// Deletes all libraries from every primary, including those of other programs.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have removed them.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn flush(&self, _all: ForgetAll) -> Result<(), CallError> {
        self.run_on_all_nodes("FUNCTION FLUSH", Request::subcommand("FUNCTION", "FLUSH").idempotent()).await
    }

    /// Returns all libraries of one of the primaries, in the form that [`Functions::restore`]
    /// accepts.
    ///
    /// # Errors
    ///
    /// [`CallError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn dump(&self) -> Result<Bytes, CallError> {
        let what = "FUNCTION DUMP";
        let request = Request::subcommand("FUNCTION", "DUMP").idempotent();
        let results = on_primaries::<Bytes>(&self.client, what, request).await?.into_answers();
        let no_primary = CallError::Unsupported { what: what.into(), needs: "a primary" };
        results.into_iter().next().map_or(Err(no_primary), |(_, dump)| dump)
    }

    /// Restores the libraries of a [`Functions::dump`] on every primary.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries. Others may have restored them.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "restoreAndReplace")]
    #[doc(alias = "restoreAfterFlush")]
    pub async fn restore(&self, dump: Bytes, how: Restoring) -> Result<(), CallError> {
        let request = Request::subcommand("FUNCTION", "RESTORE").arg(dump);
        let request = match how {
            Restoring::Beside => request.arg("APPEND"),
            Restoring::Replacing => request.arg("REPLACE").idempotent(),
            Restoring::Instead => request.arg("FLUSH").idempotent(),
        };
        self.run_on_all_nodes("FUNCTION RESTORE", request).await
    }

    /// Returns the running function of each primary, and the numbers of its libraries and
    /// functions.
    ///
    /// # Errors
    ///
    /// The [`CallError`] of one of the primaries.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn stats(&self) -> Result<Vec<(NodeId, FunctionStats)>, CallError> {
        let what = "FUNCTION STATS";
        let request = Request::subcommand("FUNCTION", "STATS").idempotent();
        let results = on_primaries::<HashMap<String, Reply>>(&self.client, what, request).await?;
        let parse = |(node, result): (NodeId, Result<_, CallError>)| {
            let stats = parse_stats(result?).map_err(|source| CallError::of(what, source))?;
            Ok((node, stats))
        };
        results.into_answers().into_iter().map(parse).collect()
    }

    /// Kills the functions that are running on the primaries, if they have not written anything
    /// yet. Returns the primaries where a function was killed.
    ///
    /// The request uses a dedicated connection. Otherwise it would wait for a function that this
    /// client is running.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] if a function has already written something: the function continues.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn kill(&self) -> Result<Vec<NodeId>, CallError> {
        kill(&self.client, "FUNCTION").await
    }

    async fn run_on_all_nodes(&self, what: &str, request: Request) -> Result<(), CallError> {
        on_primaries::<()>(&self.client, what, request).await?.reduce((), |(), ()| ())
    }
}

type Fields = HashMap<String, Reply>;

fn field<T: FromReply>(fields: &mut Fields, name: &str) -> Result<T, ServerError> {
    T::from_reply(fields.remove(name).unwrap_or(Reply::Nil))
}

fn parse_library(reply: Reply) -> Result<LibraryInfo, ServerError> {
    let mut fields = Fields::from_reply(reply)?;
    let functions: Vec<Fields> = field(&mut fields, "functions")?;
    let mut functions = functions.into_iter().map(parse_function).collect::<Result<Vec<_>, _>>()?;
    functions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(LibraryInfo {
        name: field(&mut fields, "library_name")?,
        engine: field(&mut fields, "engine")?,
        functions,
        code: field(&mut fields, "library_code")?,
        nodes: Vec::new(),
    })
}

fn parse_function(mut fields: Fields) -> Result<FunctionInfo, ServerError> {
    let name = field(&mut fields, "name")?;
    let description = field::<Option<String>>(&mut fields, "description")?.filter(|text| !text.is_empty());
    Ok(FunctionInfo { name, description, flags: field(&mut fields, "flags")? })
}

fn parse_stats(mut fields: Fields) -> Result<FunctionStats, ServerError> {
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
