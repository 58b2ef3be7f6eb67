//! The Java program: its libraries come from Maven, and it is compiled once, into Cargo's target
//! folder.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use tokio::process::Command;

const POM: &str = include_str!("java/pom.xml");
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Enough time to download all of Redisson's libraries over a slow connection.
const DOWNLOAD: Duration = Duration::from_secs(300);

/// The program with one version of Redisson, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) version: &'static str,
    pub(crate) java: PathBuf,
    pub(crate) classpath: String,
}

impl Program {
    /// Builds the program unless it exists. If a tool or a library is missing on this machine, the
    /// error names it, and the scenarios are skipped. A program that does not compile causes a
    /// panic.
    pub(crate) async fn build(version: &'static str) -> Result<Program, String> {
        let java = tool("java");
        let run = Command::new(&java).arg("-version").output().await;
        run.ok().filter(|output| output.status.success()).ok_or("there is no `java`")?;
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
        let sum = redgrid_tests::sha(&(POM.to_owned() + &all_sources()));
        let folder = home.join(format!("redisson-{version}-{}", &sum[..12]));
        if !folder.exists() {
            // The program is built in another folder first, which is removed on failure: another
            // run of the tests may build it at the same time.
            fs::create_dir_all(&home).expect("the target folder can be written");
            let draft = tempfile::Builder::new().prefix("draft-").tempdir_in(&home).expect("a folder can be made");
            fetch(version, &draft.path().join("lib")).await?;
            compile(draft.path()).await?;
            let moved = fs::rename(draft.path(), &folder);
            assert!(moved.is_ok() || folder.exists(), "{} cannot be made: {moved:?}", folder.display());
        }
        Ok(Program { version, java, classpath: classpath(&folder) })
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/java/src/main/java")
}

/// Returns all sources: the program is built anew when one of them changes.
fn all_sources() -> String {
    let files = fs::read_dir(sources()).expect("the sources are there").map(|file| file.expect("it is").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("a source can be read")).collect()
}

/// Takes the libraries from the local repository. A registry is used only if a library is missing
/// there.
async fn fetch(version: &str, lib: &Path) -> Result<(), String> {
    let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/java/pom.xml");
    let mut said = String::new();
    for mode in ["--offline", "--no-transfer-progress"] {
        let mut maven = Command::new("mvn");
        maven
            .args(["--batch-mode", "--quiet", "-Dstyle.color=never", mode, "--file"])
            .arg(&pom)
            .arg(format!("-Dredisson.version={version}"));
        maven.arg(format!("-DoutputDirectory={}", lib.display())).args(["-DincludeScope=runtime", COPY]);
        match bounded(&mut maven).await {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => said = error_line(&output),
            Err(error) => return Err(format!("`mvn` cannot be run: {error}")),
        }
    }
    Err(format!("Maven could not fetch Redisson {version}: {said}"))
}

async fn compile(folder: &Path) -> Result<(), String> {
    let sources = sources();
    let mut javac = Command::new(tool("javac"));
    javac.args(["-encoding", "UTF-8", "-d"]).arg(folder.join("classes"));
    javac.arg("-cp").arg(classpath(folder)).arg("-sourcepath").arg(&sources).arg(sources.join("Peer.java"));
    let output = bounded(&mut javac).await.map_err(|error| format!("`javac` cannot be run: {error}"))?;
    assert!(output.status.success(), "Peer.java does not compile:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

async fn bounded(command: &mut Command) -> io::Result<Output> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    tokio::time::timeout(DOWNLOAD, output).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Returns the first line that Maven calls an error; the other lines are hints.
fn error_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| line.contains("ERROR")).unwrap_or("no reason given").to_owned()
}

fn classpath(folder: &Path) -> String {
    format!("{}:{}", folder.join("classes").display(), folder.join("lib").join("*").display())
}

/// Returns the tool of `JAVA_HOME`, or else the one on the path.
fn tool(name: &str) -> PathBuf {
    let home = env::var_os("JAVA_HOME").map(|home| Path::new(&home).join("bin").join(name));
    home.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}
