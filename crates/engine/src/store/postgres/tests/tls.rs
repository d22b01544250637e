//! Encryption, and who the server is.

use super::{Server, admin, new_task, on, open};
use crate::{PostgresOptions, PostgresStore, Store};

async fn refusal(options: &PostgresOptions) -> String {
    PostgresStore::connect(options.clone()).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_is_believed_only_as_far_as_asked() {
    let server = Server::start();
    let plain = on(server.url());
    let with =
        |parameters: &str| PostgresOptions { url: format!("{}&{parameters}", plain.url), ..plain.clone() };
    let said = refusal(&with("sslmode=require")).await;
    assert!(said.contains("server does not support TLS"), "{said}");
    open(&plain).create(new_task()).await.unwrap();

    let certificate = server.order("tls");
    let trusting = with(&format!("sslmode=verify-full&sslrootcert={certificate}"));
    for options in [&plain, &with("sslmode=prefer"), &trusting] {
        let store = open(options);
        store.create(new_task()).await.unwrap();
        let admin = admin(&plain).await;
        let sql =
            "SELECT count(*) FILTER (WHERE ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                   WHERE application_name = $1";
        let row = admin.query_one(sql, &[&plain.schema]).await.unwrap();
        let (encrypted, all): (i64, i64) = (row.get(0), row.get(1));
        assert!(encrypted == all && all > 0, "{encrypted} of {all}");
    }
    open(&with("sslmode=disable")).create(new_task()).await.unwrap();

    // Nobody vouches for it, or for its name.
    let said = refusal(&PostgresOptions { root_certificates: None, ..with("sslmode=require") }).await;
    assert!(said.contains("certificate"), "{said}");
    let elsewhere = trusting.url.replace("127.0.0.1", "localhost");
    let said = refusal(&PostgresOptions { url: elsewhere, ..trusting.clone() }).await;
    assert!(said.contains("certificate"), "{said}");
    let none = with("sslmode=require&sslrootcert=/dev/null");
    assert!(refusal(&none).await.contains("/dev/null"), "{}", refusal(&none).await);
}
