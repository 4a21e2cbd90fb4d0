//! What the tables cost, and how they are walked.

use tokio_postgres::SimpleQueryMessage;

use super::*;

#[tokio::test]
async fn a_thousand_messages_take_at_most_twice_their_size() {
    for size in [240, 660, 1_040, 2_500] {
        let Some(store) = fresh() else { return };
        // Text that does not shrink to nothing.
        let letter =
            |seq: u64, at: u64| char::from(b"abcdefghijklmnopqrstuvwxyz"[((7 * seq + at * at % 251) % 26) as usize]);
        let text = |seq| (0..size).map(|at| letter(seq, at)).collect::<String>();
        let messages: Vec<_> = (0..1_000).map(|seq| (seq, body(text(seq)))).collect();
        let json: usize = messages.iter().map(|(_, message)| message.len()).sum();
        for (expect, turn) in (0..).zip(messages.chunks(10)) {
            store.commit(&id("c"), append(expect, turn.iter().cloned())).await.unwrap();
        }
        let schema = store.shared.schema.name();
        let relations = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c
            JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = current_schema AND relname = 'message'";
        let taken: i64 = beside(&store).await.query_typed_one(relations, &[]).await.unwrap().get(0);
        assert!(taken.unsigned_abs() <= 2 * json as u64, "{schema}, {size}: {taken} bytes for {json}");
    }
}

#[tokio::test]
async fn listings_walk_along_their_indexes() {
    let Some(store) = fresh() else { return };
    store.leases(None, 1).await.unwrap();
    let client = beside(&store).await;
    // A planner that has seen no rows would rather read the whole table.
    client.batch_execute("SET enable_seqscan = off; SET enable_sort = off").await.unwrap();
    let statements = &store.shared.schema;
    for (statement, given, index) in [
        (&statements.leases, "(1::bigint, 'c'::text, 5::bigint)", "conversation_by_lease"),
        (&statements.by_age, "(1::bigint, 'c'::text, '\\x00'::bytea, 5::bigint)", "request_by_age"),
        (&statements.by_expiry, "(1::bigint, 'c'::text, '\\x00'::bytea, 5::bigint)", "request_by_expiry"),
    ] {
        let types = given.trim_matches(['(', ')']).split(", ").map(|value| value.rsplit("::").next().unwrap());
        let types = types.collect::<Vec<_>>().join(", ");
        client.batch_execute(&format!("PREPARE page ({types}) AS {statement}")).await.unwrap();
        let plan = client.simple_query(&format!("EXPLAIN EXECUTE page {given}")).await.unwrap();
        let lines = plan.iter().filter_map(|line| {
            let SimpleQueryMessage::Row(row) = line else { return None };
            row.get(0)
        });
        let plan = lines.collect::<Vec<_>>().join("\n");
        let walked = plan.lines().position(|line| line.contains(&format!("using {index}")));
        let limited = plan.lines().position(|line| line.contains("Limit"));
        assert!(walked.is_some() && limited < walked, "{plan}");
        let between = plan.lines().skip(limited.unwrap()).take(walked.unwrap() - limited.unwrap());
        assert!(!between.clone().any(|line| line.contains("Sort")), "{plan}");
        client.batch_execute("DEALLOCATE page").await.unwrap();
    }
}
