//! TLS by `sslmode`, against a server with a certificate of an authority that the machine does not know.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::*;

#[tokio::test]
async fn the_mode_decides_whom_the_store_speaks_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| write(&folder, name, content);
    let (ours, other) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &ours).unwrap();
    let roots = file("ours.pem", ours.pem());
    let others = file("others.pem", other.pem());
    let files = [file("server.crt", certificate.pem()), file("server.key", key.serialize_pem())];
    let [certificate, key] = files;
    let (certificate, key) = (format!("ssl_cert_file=@{certificate}"), format!("ssl_key_file=@{key}"));
    let options = ["-c", "ssl=on", "-c", &certificate, "-c", &key];
    let Some(url) = server("postgres.tls", &options) else { return };

    // Users whose name begins with "named" have a password.
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let file: String = client.query_typed_one("SHOW hba_file", &[]).await.unwrap().get(0);
    let rules = "VALUES ('host all named 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust')";
    let named = format!(
        "SET password_encryption TO 'scram-sha-256'; CREATE ROLE named SUPERUSER LOGIN PASSWORD 's3cret';
         COPY ({rules}) TO '{file}'; SELECT pg_reload_conf()"
    );
    client.batch_execute(&named).await.unwrap();
    let log_in = |password: &str| url.replace("toolrelay@127.0.0.1", &format!("named:{password}@localhost"));
    let (right, wrong) = (log_in("s3cret"), log_in("s3crets"));

    let by_name = url.replace("127.0.0.1", "localhost");
    for (url, mode, expected) in [
        (&url, "disable".to_owned(), Ok(false)),
        (&url, "prefer".to_owned(), Ok(true)),
        (&url, "require".to_owned(), Ok(true)),
        (&url, format!("verify-ca&sslrootcert={roots}"), Ok(true)),
        (&by_name, format!("verify-full&sslrootcert={roots}"), Ok(true)),
        (&url, format!("verify-full&sslrootcert={roots}"), Err("not valid for name")),
        (&url, format!("verify-ca&sslrootcert={others}"), Err("invalid peer certificate")),
        (&by_name, format!("verify-full&sslrootcert={others}"), Err("invalid peer certificate")),
        (&by_name, "verify-full".to_owned(), Err("invalid peer certificate")),
        (&right, format!("verify-full&sslrootcert={roots}&channel_binding=require"), Ok(true)),
        (&right, "require".to_owned(), Ok(true)),
        (&right, "disable".to_owned(), Ok(false)),
        (&wrong, "require".to_owned(), Err("password authentication failed for user \"named\" (SQLSTATE 28P01)")),
        (&by_name, "verify-full&sslrootcert=/no/such/file".to_owned(), Err("/no/such/file")),
    ] {
        let store = on(&format!("{url}?sslmode={mode}"), Duration::from_secs(5));
        let loaded = store.load(&id("c")).await;
        match expected {
            Ok(is_encrypted) => {
                assert_eq!(loaded, Ok(None), "{mode}");
                assert_eq!(is_over_tls(url).await, is_encrypted, "{mode}");
            }
            Err(reason) => {
                let told = loaded.unwrap_err();
                assert!(matches!(&told, StoreError::Unavailable { .. }), "{mode}: {told}");
                assert!(told.to_string().to_lowercase().contains(&reason.to_lowercase()), "{mode}: {told}");
            }
        }
        store.close().await;
    }
}

#[tokio::test]
async fn a_certificate_of_its_own_says_who_the_store_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: String| write(&folder, name, content);
    let (ours, other) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let server_certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &ours).unwrap();
    let settings = [
        format!("ssl_cert_file=@{}", file("server.crt", server_certificate.pem())),
        format!("ssl_key_file=@{}", file("server.key", key.serialize_pem())),
        format!("ssl_ca_file=@{}", file("ours.pem", ours.pem())),
    ];
    let options: Vec<&str> =
        ["ssl=on", &settings[0], &settings[1], &settings[2]].into_iter().flat_map(|set| ["-c", set]).collect();
    let Some(url) = server("postgres.certificates", &options) else { return };

    // A user of this name comes in with a certificate alone.
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let rules: String = client.query_typed_one("SHOW hba_file", &[]).await.unwrap().get(0);
    let certified = format!(
        "CREATE ROLE certified SUPERUSER LOGIN;
         COPY (VALUES ('hostssl all certified 127.0.0.1/32 cert'), ('host all toolrelay 127.0.0.1/32 trust')) TO '{rules}';
         SELECT pg_reload_conf()"
    );
    client.batch_execute(&certified).await.unwrap();

    let certificate = |who: &str, issuer: &CertifiedIssuer<'_, KeyPair>, name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, who);
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, issuer).unwrap();
        [file(&format!("{name}.crt"), signed.pem()), file(&format!("{name}.key"), key.serialize_pem())]
    };
    let [right, its_key] = certificate("certified", &ours, "right");
    let [stranger, strange_key] = certificate("somebody", &ours, "stranger");
    let [forged, forged_key] = certificate("certified", &other, "forged");
    let url = url.replace("toolrelay@", "certified@");
    for (options, expected) in [
        (format!("&sslcert={right}&sslkey={its_key}"), Ok(())),
        (String::new(), Err("requires a valid client certificate")),
        (format!("&sslcert={stranger}&sslkey={strange_key}"), Err("certificate authentication failed")),
        (format!("&sslcert={forged}&sslkey={forged_key}"), Err("")),
        (format!("&sslcert={right}&sslkey={forged_key}"), Err("")),
        (format!("&sslcert={its_key}&sslkey={its_key}"), Err("no certificate could be read from")),
        (format!("&sslcert={right}&sslkey={right}"), Err("no private key could be read from")),
    ] {
        let store = on(&format!("{url}?sslmode=require{options}"), Duration::from_secs(5));
        match (store.load(&id("c")).await, expected) {
            (loaded, Ok(())) => assert_eq!(loaded, Ok(None), "{options}"),
            (Err(StoreError::Unavailable { reason, .. }), Err(told)) => {
                assert!(reason.contains(told), "{options}: {reason}");
            }
            (loaded, Err(_)) => panic!("{options}: {loaded:?}"),
        }
        store.close().await;
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn write(folder: &tempfile::TempDir, name: &str, content: String) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// Whether the one connection of ours is encrypted.
async fn is_over_tls(url: &str) -> bool {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let ask = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'toolrelay'";
    client.query_typed_one(ask, &[]).await.unwrap().get(0)
}
