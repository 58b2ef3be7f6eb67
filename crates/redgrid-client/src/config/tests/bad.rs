//! Invalid configurations: each error is one sentence, names the origin, and contains no password.

use super::super::{Config, ConfigError};
#[cfg(feature = "config-files")]
use super::files::{TempFile, variables};

/// A password. The tests put it wherever a user could put a password, even by mistake.
const MARKER: &str = "hunter2";

/// Checks the properties that every error must have, and returns the error's text.
fn error_text(what: &str, read: Result<Config, ConfigError>) -> String {
    let error = match read.and_then(|config| config.check().map(|()| config)) {
        Err(error) => error,
        Ok(config) => panic!("{what} is understood: {config:?}"),
    };
    let text = error.to_string();
    assert!(!format!("{text} {error:?}").contains(MARKER), "{what}: {error:?}");
    assert!(!text.contains('\n') && !text.ends_with('.') && text.len() < 320, "{what}: {text}");
    text
}

#[test]
fn bad_urls_name_the_part_and_hide_the_password() {
    for (url, words) in [
        ("", "expected a URL like"),
        ("hunter2", "expected a URL like"),
        ("http://u:hunter2@h", "expected the scheme"),
        ("redis-ring://u:hunter2@h", "expected the scheme"),
        ("rediss+unix:///hunter2", "expected the scheme"),
        ("redis://", "expected a host"),
        ("redis://u:hunter2@", "expected a host"),
        ("redis://u:hunter2@h:99999", "`host` in the URL: expected a port"),
        ("redis://u:hunter2@h:", "`host` in the URL: expected a port"),
        ("redis://u:hunter2@h h", "`host` in the URL: expected a host name"),
        ("redis://::1", "`host` in the URL: expected an IPv6 address in brackets, like `[::1]:6379`"),
        ("redis://:hunter2@::1:6379", "`host` in the URL: expected an IPv6 address in brackets"),
        (
            "redis://${REDIS_HOST}:6379",
            "`host` in the URL: expected a host name or an IP address, found a variable: `$`",
        ),
        ("redis://$HOST", "found a variable: `$` has no meaning in it"),
        ("redis://6379", "expected a host in front of the port"),
        ("redis://h?db=1", "`db` in the URL is no setting; did you mean `database`?"),
        ("redis://h?ssl=true", "`ssl` in the URL is no setting; did you mean `tls`?"),
        ("redis://h?insecure=true", "`insecure` in the URL is no setting: certificates are always verified"),
        ("rediss://h/#insecure", "expected no `#` part: certificates are always verified; `tls_ca_file` has"),
        ("redis://h?user=hunter2", "did you mean `username`?"),
        ("redis://u:hun/ter2@h", "expected `/`, `?`, `#` and `@` in user and password as %2F"),
        ("redis://u:hun?hunter2=1@h", "as %2F"),
        ("redis://u:hunter2#@h", "as %2F"),
        ("redis://u:hunter2@x@h", "`@` in user and password as %40"),
        ("redis://u:hunter2%zz@h", "percent-encoded"),
        ("redis://u:hunter2%ff@h", "percent-encoded"),
        ("redis://h/x", "expected a database number from 0 to 255"),
        ("redis://h/300", "expected a database number from 0 to 255"),
        ("redis://h/1/2", "expected a database number"),
        ("redis://h1,h2", "expected one host; several are"),
        ("redis://h#x", "no `#` part"),
        ("redis://h?timeout", "expected `setting=value`"),
        ("redis://h?hunter2:x=1", "expected names of settings"),
        (
            "redis://h?response_timout=1s",
            "`response_timout` in the URL is no setting; did you mean `response_timeout`?",
        ),
        (
            "redis://h?response_timeout=3000",
            "`response_timeout` in the URL: expected a time with its unit, like `1s` or `250ms`",
        ),
        ("redis://h?response_timeout=1ms", "from 10ms to 1day, found `1ms`"),
        ("redis://h?response_timeout=1s&response_timeout=2s", "they set the same value"),
        (
            "redis://:hunter2@h?password=hunter2",
            "`password` in the URL and `password` in the URL do not fit together: they set the same value",
        ),
        ("redis://h?cluster=a", "the servers before the `?`"),
        ("redis://h?read_mode=master", "expected one of `primary`, `replica`, `any`, found `master`"),
        ("redis://h?connections_per_node=17", "expected a whole number from 1 to 16, found `17`"),
        ("rediss://h?tls_ca_pem=hunter2", "`tls_ca_pem` in the URL: expected PEM text, with `-----BEGIN …-----`"),
        (
            "rediss://h?tls_key_file=-----BEGIN%20hunter2",
            "`tls_key_file` in the URL: expected the path of a file; PEM text",
        ),
        ("redis://h?tls=yes", "`tls` in the URL: expected `true` or `false`, found `yes`"),
        ("rediss://h?tls=false", "not both"),
        ("redis://h?namespace={x}", "a namespace without braces"),
        ("redis://h?client_name=a%20b", "printable ASCII"),
        ("redis://h?sentinel_password=hunter2", "`sentinel_password` in the URL and no `sentinels` do not fit"),
        ("redis-sentinel://:hunter2@h", "expected the name of the primary as the path"),
        ("redis-sentinel://h,/m", "after each comma"),
        ("redis-sentinel://h,h/m", "expected each address once"),
        ("redis-cluster://h/1", "expected no path"),
        (
            "redis-cluster://h?database=1",
            "`database` in the URL (1) and `cluster` do not fit together: a cluster has only database 0",
        ),
        ("unix://h/path", "expected no host"),
        ("unix://", "`path` in the URL: expected the path of a file"),
        ("unix:///s?tls=true", "is not encrypted"),
    ] {
        let text = error_text(url, Config::from_url(url));
        let words = words.replace("and `cluster` do", "and `host` in the URL do");
        assert!(text.contains(&words), "{url}: {text}");
        assert!(text.contains("the URL"), "{url}: {text}");
    }
}

#[test]
fn values_that_do_not_fit_are_both_named() {
    for (url, words) in [
        ("redis://h?retry_delay=1m", ["`retry_delay` in the URL (1m)", "(15s)"]),
        (
            "redis://h?durability=disk&durability_timeout=30s",
            ["`durability_timeout` in the URL (30s)", "`watchdog_lease` (30s)"],
        ),
        ("redis://h?durability=disk&durability_at_least=2", ["`durability_at_least` in the URL", "`durability: disk`"]),
        ("redis://h?durability_timeout=2s", ["`durability_timeout` in the URL", "`durability: primary`"]),
        ("redis://h?tls_ca_file=/ca", ["`tls_ca_file` in the URL", "`tls: false`"]),
        ("redis-master-slave://h,r,h:6379", ["`host` in the URL and `host` in the URL", "its own replica"]),
        ("rediss://h?tls_cert_file=/c", ["`tls_cert_file` in the URL", "no `tls_key_file` or `tls_key_pem`"]),
        (
            "redis://hunter2@h",
            ["`user` in the URL", "no `password` do not fit together: a user logs in with a password"],
        ),
        ("redis://h?username=hunter2", ["`username` in the URL", "no `password`"]),
        ("redis-sentinel://h/m?sentinel_username=u", ["`sentinel_username` in the URL", "no `sentinel_password`"]),
        ("rediss://h?tls_key_file=/k", ["`tls_key_file` in the URL", "no `tls_cert_file` or `tls_cert_pem`"]),
        ("rediss://h?tls_key_pem=-----BEGIN%20", ["`tls_key_pem` in the URL", "no `tls_cert_file` or `tls_cert_pem`"]),
        ("redis://h?tls_ca_pem=-----BEGIN%20", ["`tls_ca_pem` in the URL", "`tls: false`"]),
        (
            "rediss://h?tls_ca_file=/ca&tls_ca_pem=-----BEGIN%20",
            [
                "`tls_ca_file` in the URL",
                "`tls_ca_pem` in the URL do not fit together: they give the same certificate or key",
            ],
        ),
    ] {
        let text = error_text(url, Config::from_url(url));
        assert!(words.iter().all(|word| text.contains(word)), "{url}: {text}");
    }
}

#[test]
fn a_user_needs_a_password_in_the_url_or_in_code() {
    let user = |url: &str| Config::from_url(url).unwrap();
    assert!(user("redis://app:@h").check().is_ok());
    assert!(user("redis://app@h").credentials(Some("app"), "hunter2").check().is_ok());
    assert!(user("redis://app@h").check().is_err());
}

#[test]
#[cfg(feature = "config-files")]
fn bad_files_name_the_file_and_the_key() {
    for (name, text, words) in [
        (
            "c.yaml",
            "",
            "no server is named: expected `url`, or one of `single`, `unix`, `primary`, `replicated`, `sentinels`, `cluster`",
        ),
        ("c.yaml", "password: hunter2", "no server is named"),
        ("c.yaml", "- hunter2", "expected one key per setting"),
        ("c.yaml", "single: h\npassword: *hunter2", "is not YAML: line 2"),
        ("c.yaml", "single: h\npassword: 'hunter2", "is not YAML"),
        ("c.yaml", "single: h\npassword: !hunter2 {}", "`password` in {}: expected one value"),
        ("c.yaml", "single: h\npassword: {hunter2: 1}", "`password` in {}: expected one value"),
        ("c.yaml", "single: h\npassword: [hunter2]", "`password` in {}: expected text that stays secret, not a list"),
        ("c.toml", "single = 'h'\npassword = 1979-05-27", "`password` in {}: expected one value"),
        ("c.yaml", "url: [hunter2, b]", "`url` in {}: expected one URL, not a list"),
        ("c.toml", "url = ['redis://:hunter2@h']", "`url` in {}: expected one URL, not a list"),
        ("c.json", "{\"url\": [\"hunter2\"]}", "`url` in {}: expected one URL, not a list"),
        ("c.yaml", "url: {a: hunter2}", "`url` in {}: expected one value"),
        ("c.yaml", "single: h\npasword: hunter2", "`pasword` in {} is no setting; did you mean `password`?"),
        ("c.yaml", "single: h\nwhatever: 1", "`whatever` in {} is no setting"),
        ("c.yaml", "single: ${HOST}", "`single` in {}: expected a host name or an IP address, found a variable"),
        ("c.yaml", "single: '::1:6379'", "`single` in {}: expected an IPv6 address in brackets, like `[::1]:6379`"),
        ("c.yaml", "single: 6379", "`single` in {}: expected a host in front of the port"),
        ("c.yaml", "single: h\ndb: 1", "`db` in {} is no setting; did you mean `database`?"),
        ("c.yaml", "single: h\nverify: false", "`verify` in {} is no setting: certificates are always verified"),
        (
            "c.yaml",
            "hosts: [a, b]",
            "`hosts` in {} is no setting: `single`, `primary`, `replicated`, `sentinels` or `cluster`",
        ),
        ("c.yaml", "single: redis://:hunter2@h", "`single` in {}: expected `host:port`; a whole URL goes into `url`"),
        ("c.yaml", "single: hunter2@h", "`single` in {}: expected a host name"),
        ("c.yaml", "url: redis://:hunter2@h/x", "`url` in {} is not understood: expected a database number"),
        ("c.yaml", "url: redis://:hunter2@h\nsingle: h", "they set the same value"),
        (
            "c.yaml",
            "single: h\ncluster: [a]",
            "`single` in {} and `cluster` in {} do not fit together: each names the servers",
        ),
        ("c.yaml", "replicas: [a]", "`replicas` in {} and no `primary` do not fit"),
        ("c.yaml", "sentinels: [a]", "`sentinels` in {} and no `master_name` do not fit"),
        ("c.yaml", "master_name: a", "`master_name` in {} and no `sentinels` do not fit"),
        (
            "c.yaml",
            "single: h\nresponse_timeout: 3000",
            "`response_timeout` in {}: expected a time with its unit, like `1s` or `250ms`, from 10ms to 1day, found `3000`",
        ),
        ("c.yaml", "single: h\nsingle: h", "`single` in {}: expected each key once, found it twice"),
        ("c.json", "{\"single\": \"h\", \"single\": \"hunter2\"}", "`single` in {}: expected each key once"),
        ("c.toml", "single = 'h'\nsingle = 'hunter2'", "is not TOML: line 2, column 1"),
        ("c.yaml", "single: h\n---\npassword: hunter2", "expected one YAML document, found a second one at line 2"),
        ("c.yaml", "# a\n---\nsingle: h\n\n---\na: b", "expected one YAML document, found a second one at line 5"),
        ("c.yaml", "single: h\n\npassword: *hunter2", "is not YAML: line 3, column 11"),
        ("c.yaml", "single: &h h\n<<: *h", "`<<` in {} is no setting"),
        ("c.yaml", "cluster: []", "`cluster` in {}: expected at least one `host:port`"),
        ("c.yaml", "cluster: [[a]]", "`cluster` in {}: expected texts in the list"),
        ("c.toml", "password = hunter2", "is not TOML: line 1, column 12"),
        ("c.toml", "single = 'h'\n[password]\nhunter2 = 1", "`password` in {}: expected one value"),
        ("c.json", "{\"password\": \"hunter2\", }", "is not JSON: line 1"),
        ("c.ini", "password = hunter2", "expected `yaml`, `yml`, `toml` or `json`"),
        ("r.yaml", "singleServerConfig: {}", "no server is named"),
        (
            "r.yaml",
            "codec: !<org.redisson.codec.Kryo5Codec> {}\nsingleServerConfig:\n  password: a\n  password: hunter2\n",
            "`singleServerConfig.password` in {}: expected each key once",
        ),
        ("r.yaml", "singleServerConfig: hunter2", "`singleServerConfig` in {}: expected keys and values"),
        (
            "r.yaml",
            "singleServerConfig: {adress: 'redis://h:1'}",
            "`singleServerConfig.adress` in {} is no setting; did you mean `address`?",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://u:hunter2@h'}",
            "`singleServerConfig.address` in {}: expected `redis://host:port`",
        ),
        (
            "r.yaml",
            "masterSlaveServersConfig: {masterAddress: 'redis://u:hunter2@h:1', slaveAddresses: ['redis://i:1']}",
            "`masterSlaveServersConfig.slaveAddresses` in {}: expected the same user and password in all addresses",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'h:1'}",
            "`singleServerConfig.address` in {}: expected `redis://host:port`",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1', timeout: 3s}",
            "`singleServerConfig.timeout` in {}: expected milliseconds",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1', password: '${PW}'}",
            "`singleServerConfig.password` in {}: expected a value for the variable in `${…}`",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1', retryDelay: soon}",
            "expected a delay with `baseDelay`",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1'}\nlockWatchdogTimeut: 1",
            "did you mean `lockWatchdogTimeout`?",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1'}\nlockWatchdogTimeout: 10",
            "`lockWatchdogTimeout` in {}: expected a time with its unit, like `1s` or `250ms`, from 100ms",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1'}\nclusterServersConfig: {nodeAddresses: ['redis://h:1']}",
            "each names the servers",
        ),
        (
            "r.yaml",
            "singleServerConfig: {address: 'redis://h:1'}\ncodec: hunter2",
            "`codec` in {}: expected a Java class",
        ),
        (
            "r.yaml",
            "clusterServersConfig: {nodeAddresses: ['redis://h:1', 'rediss://h:2']}",
            "all addresses with `redis://`, or all with `rediss://`",
        ),
        (
            "r.yaml",
            "clusterServersConfig: {nodeAddresses: ['redis://h:1'], readMode: NONE}",
            "expected one of `SLAVE`, `MASTER`, `MASTER_SLAVE`",
        ),
        (
            "r.yaml",
            "clusterServersConfig: {scanInterval: 1000}",
            "`clusterServersConfig.nodeAddresses` in {}: expected at least one address",
        ),
        (
            "r.yaml",
            "sentinelServersConfig: {sentinelAddresses: ['redis://h:1'], sentinelPassword: hunter2}",
            "no `master_name` do not fit",
        ),
        (
            "r.yaml",
            "replicatedServersConfig: {password: hunter2}",
            "`replicatedServersConfig.nodeAddresses` in {}: expected at least one address",
        ),
        (
            "r.yaml",
            "proxyServersConfig: {password: hunter2}",
            "`proxyServersConfig` in {} is a topology that is not supported here",
        ),
    ] {
        let file = TempFile::new(name, text);
        let path = file.path().display().to_string();
        let error_text = error_text(text, Config::from_file(file.path()));
        assert!(error_text.contains(&words.replace("{}", &path)), "{text}: {error_text}");
        assert!(error_text.contains(&path) || error_text.starts_with("no server is named"), "{text}: {error_text}");
    }
    let error_text = error_text("a missing file", Config::from_file("/no/such.yaml"));
    assert_eq!(error_text, "cannot read /no/such.yaml: entity not found");
}

#[test]
#[cfg(feature = "config-files")]
fn bad_variables_are_named() {
    for (pairs, words) in [
        (&[][..], "no server is named"),
        (&[("REDGRID_URL", "http://:hunter2@h")], "REDGRID_URL is not understood: expected the scheme"),
        (
            &[("REDGRID_URL", "redis://:hunter2@h"), ("REDGRID_RESPONSE_TIMEOUT", "5")],
            "REDGRID_RESPONSE_TIMEOUT: expected a time with its unit",
        ),
        (
            &[("REDGRID_URL", "redis://h"), ("REDGRID_PASWORD", "hunter2")],
            "REDGRID_PASWORD is no setting; did you mean `password`?",
        ),
        (&[("REDGRID_URL", "redis://h"), ("REDGRID_DB", "1")], "REDGRID_DB is no setting; did you mean `database`?"),
        (&[("REDGRID_URL", "redis://h"), ("REDGRID_CLUSTER", "h:hunter2")], "REDGRID_CLUSTER: expected a port"),
        (
            &[("REDGRID_URL", "redis://h"), ("REDGRID_CLUSTER", "h")],
            "`host` in REDGRID_URL and REDGRID_CLUSTER do not fit",
        ),
        (&[("REDGRID_CONFIG", "/no/such.toml")], "cannot read /no/such.toml"),
    ] {
        let text = error_text(&format!("{pairs:?}"), variables(pairs));
        assert!(text.contains(words), "{pairs:?}: {text}");
    }
}

#[test]
fn debug_shows_no_password() {
    let url = "redis-sentinel://u:hunter2@h/m?sentinel_password=hunter2";
    let config = Config::from_url(url).unwrap();
    let shown = format!("{config:?} {:?} {:?}", config.explain(), config.access());
    assert!(!shown.contains(MARKER) && shown.contains("***"), "{shown}");
}
