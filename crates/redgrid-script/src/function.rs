//! Server-side functions and their libraries.

use std::sync::Arc;

use bytes::Bytes;

use crate::call::Call;
use crate::error::CallError;
use redgrid_core::Failure;

/// The code of a library of functions, which a program loads into the servers. It is cheap to
/// clone.
///
/// Requires Redis 7.0 or newer, or Valkey. If the library is missing, a call of one of its
/// functions loads it. This happens on a node that joined later, or on one that lost its data. Such
/// a call never replaces another library with the same name;
/// [`Functions::replace`](crate::Functions::replace) does.
///
/// ```no_run
/// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
/// use redgrid_script::Library;
///
/// let library = Library::new("#!lua name=stock\n
///     redis.register_function('stock_take', function(keys, args)
///         return redis.call('DECRBY', keys[1], args[1])
///     end)")?;
/// let take = library.function("stock_take");
/// let left: i64 = take.call().key("stock:7").int(2).query(client).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Library {
    name: Arc<str>,
    code: Bytes,
}

impl Library {
    /// Returns a library with this code. Its first line contains the name, as in
    /// `#!lua name=stock`.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`] if the first line does not contain a name.
    pub fn new(code: impl Into<String>) -> Result<Self, CallError> {
        let code = code.into();
        let first = code.lines().next().unwrap_or_default();
        let name = first.strip_prefix("#!").and_then(|rest| {
            rest.split_whitespace().skip(1).find_map(|word| word.strip_prefix("name=")).filter(|name| !name.is_empty())
        });
        let Some(name) = name else {
            return Err(Failure::invalid_argument(
                "FUNCTION LOAD",
                "code",
                "a first line such as `#!lua name=stock`",
                format!("`{}`", first.chars().take(64).collect::<String>()),
            )
            .into());
        };
        Ok(Library { name: name.into(), code: code.clone().into() })
    }

    /// Returns the name of the library.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the code of the library.
    pub(crate) fn code(&self) -> &Bytes {
        &self.code
    }

    /// Returns a function of the library.
    pub fn function(&self, name: impl Into<String>) -> Function {
        Function { library: Some(self.code.clone()), ..Function::new(name) }
    }
}

redgrid_core::debug_fields!(Library, |it| name: it.name);

/// A server-side function. It is cheap to clone.
#[derive(Clone)]
#[doc(alias = "RFunction")]
pub struct Function {
    name: String,
    library: Option<Bytes>,
    idempotent: bool,
    reads: bool,
}

impl Function {
    /// Returns a function that the servers already have.
    ///
    /// If the function is missing, a call is refused. Functions of [`Library::function`] are loaded
    /// instead.
    pub fn new(name: impl Into<String>) -> Self {
        Function { name: name.into(), library: None, idempotent: false, reads: false }
    }

    /// Marks the function as idempotent: see [`Call::idempotent`].
    pub fn idempotent(self) -> Self {
        Function { idempotent: true, ..self }
    }

    /// Marks the function as read-only, which means that it has the flag `no-writes`: see
    /// [`Call::reads`].
    pub fn reads(self) -> Self {
        Function { reads: true, ..self }
    }

    /// Returns a call of the function, to which keys and arguments are added.
    pub fn call(&self) -> Call {
        let call = Call::function(&self.name, self.library.clone());
        let call = if self.idempotent { call.idempotent() } else { call };
        if self.reads { call.reads() } else { call }
    }
}

redgrid_core::debug_fields!(Function, |it| name: it.name);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_contains_the_name() {
        assert_eq!(Library::new("#!lua name=stock\nredis…").unwrap().name(), "stock");
        assert_eq!(Library::new("#!lua  name=a\r\n").unwrap().name(), "a");
        for bad in ["", "return 1", "#!lua\n", "#!lua name=\n", "\n#!lua name=late"] {
            let error = Library::new(bad).unwrap_err();
            assert!(matches!(error, CallError::Failed(Failure::InvalidArgument { option: "code", .. })), "{error:?}");
        }
    }
}
