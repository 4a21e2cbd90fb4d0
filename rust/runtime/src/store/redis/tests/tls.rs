//! TLS. Whom the machine trusts is read from the environment, so the test runs in processes of its own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;

#[tokio::test]
async fn a_server_is_spoken_to_if_the_machine_trusts_its_certificate() {
    if let Ok(url) = std::env::var("TOOLRELAY_TEST_URL") {
        let told = on(&url, Duration::from_secs(5)).load(&id("c")).await;
        return println!("> {}", told.map_or_else(|error| error.to_string(), |found| format!("{found:?}")));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let roots = file("roots.pem", authority.pem());
    let certificate = format!("@{}", file("server.crt", certificate.pem()));
    let key = format!("@{}", file("server.key", key.serialize_pem()));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let options =
        ["--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file", &certificate, "--tls-key-file", &key];
    if server("redis.tls", &options).is_none() {
        return;
    }
    for (url, roots, expected) in [
        (format!("rediss://localhost:{port}"), Some(&roots), "None"),
        (format!("rediss://127.0.0.1:{port}"), Some(&roots), "not valid for name"),
        (format!("rediss://localhost:{port}"), None, "UnknownIssuer"),
    ] {
        let test = "store::redis::tests::tls::a_server_is_spoken_to_if_the_machine_trusts_its_certificate";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env("TOOLRELAY_TEST_URL", &url);
        child.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE").envs(roots.map(|roots| ("SSL_CERT_FILE", roots)));
        let said = child.output().unwrap();
        assert!(String::from_utf8_lossy(&said.stdout).contains(expected), "{url}: {said:?}");
    }
}
