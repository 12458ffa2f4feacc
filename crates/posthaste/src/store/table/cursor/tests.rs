use super::*;
use posthaste_core::target::DeliverError;

fn cursor() -> Cursor {
    Cursor::new(LaneSpec::new("main".parse().unwrap()), Owner::new("r"))
}

fn claim(cursor: &Cursor, token: &str, ids: &[&str]) -> Vec<Ticket> {
    let token: Token = token.into();
    cursor.begin_claim(&token);
    let tickets = cursor.end_claim(&token, Instant::now(), Look::Whole, ids.iter().map(|id| (*id, 0)), None);
    cursor.hand_out(&token);
    tickets
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_never_answered_is_not_forgotten() {
    let cursor = cursor();
    cursor.begin_claim(&"t1".into());
    claim(&cursor, "t2", &["a"]);
    let left = cursor.left(25);
    assert_eq!((left.unsure, left.ids), (vec!["t1".to_owned()], vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_row_claimed_again_voids_its_old_ticket() {
    let cursor = cursor();
    let old = claim(&cursor, "t1", &["a", "b"]);
    claim(&cursor, "t2", &["a"]);
    let sorted = cursor.sort(&[Settled::new(old[0], Outcome::Delivered)]);
    assert_eq!((sorted.unknown, sorted.delivered.len()), (1, 0));
    assert_eq!(sorted.standing(0, 0), Standing::Lost);
}

#[tokio::test(start_paused = true)]
async fn settles_renew_only_what_is_old_and_empty_ones_everything() {
    let cursor = cursor();
    let tickets = claim(&cursor, "t1", &["a", "b", "c"]);
    let sorted = cursor.sort(&[Settled::new(tickets[0], Outcome::Delivered)]);
    assert!(sorted.renewed.is_empty(), "{sorted:?}");
    cursor.recorded(&sorted);
    assert_eq!(cursor.sort(&[]).renewed.len(), 2);
    tokio::time::advance(Duration::from_secs(4)).await;
    let sorted = cursor.sort(&[Settled::new(tickets[1], Outcome::Delivered)]);
    assert_eq!(sorted.renewed, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn what_became_old_while_a_settle_was_on_its_way_is_renewed_by_the_next_one() {
    let cursor = cursor();
    let old = claim(&cursor, "t1", &["a", "b"]);
    tokio::time::advance(Duration::from_secs(3)).await;
    claim(&cursor, "t2", &["c"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    let sorted = cursor.sort(&[Settled::new(old[0], Outcome::Delivered)]);
    assert_eq!(sorted.renewed, ["b"], "a third of the lease has passed for the first claim");
    tokio::time::advance(Duration::from_secs(3)).await;
    cursor.recorded(&sorted);
    let next = cursor.sort(&[Settled::new(old[1], Outcome::Delivered)]);
    assert_eq!(next.renewed, ["c"], "nobody renewed the second one meanwhile");
}

#[tokio::test(start_paused = true)]
async fn slow_is_no_end_and_the_last_outcome_counts() {
    let cursor = cursor();
    let tickets = claim(&cursor, "t1", &["a"]);
    let error = DeliverError::new(DeliverKind::Failed, "c", "m");
    let after = Duration::ZERO;
    let sorted = cursor.sort(&[
        Settled::new(tickets[0], Outcome::Slow),
        Settled::new(tickets[0], Outcome::Retry { after, error }),
    ]);
    assert_eq!((sorted.retry.after_ms.as_slice(), sorted.outcomes()), (&[1][..], 1));
}

#[tokio::test(start_paused = true)]
async fn claims_go_on_from_the_place_and_now_and_then_from_the_beginning() {
    let cursor = cursor();
    assert_eq!(cursor.look(), Look::Whole);
    let token: Token = "t".into();
    cursor.begin_claim(&token);
    let latest = Timestamp::from_micros(10_000_000);
    cursor.end_claim(&token, Instant::now(), Look::Whole, [("a", 0)].into_iter(), Some(latest));
    assert_eq!(cursor.look(), Look::Since(latest.before(PLACE_MARGIN)));
    tokio::time::advance(WHOLE_EVERY_MIN).await;
    assert_eq!(cursor.look(), Look::Whole, "what committed late is found");
}

#[tokio::test(start_paused = true)]
async fn one_pass_goes_on_from_the_place_too_and_ends_only_when_nothing_is_left_anywhere() {
    let cursor = Cursor::new(LaneSpec::new("main".parse().unwrap()), Owner::new("r").passing());
    let (token, began, latest): (Token, _, _) =
        ("t".into(), Instant::now(), Timestamp::from_micros(10_000_000));
    cursor.begin_claim(&token);
    tokio::time::advance(WHOLE_IS_CHEAP * 2).await;
    cursor.end_claim(&token, began, Look::Whole, [("a", 0)].into_iter(), Some(latest));
    let look = cursor.look();
    assert_eq!(look, Look::Since(latest.before(PLACE_MARGIN)), "a backlog is read once, not once per claim");
    assert!(cursor.should_look_again(look), "however long that takes");
    assert!(!cursor.should_look_again(Look::Whole));
}

#[test]
fn what_commits_late_does_not_wait_for_ever_after_a_slow_look() {
    let after = |millis| whole_after(Duration::from_millis(millis));
    assert_eq!(after(1), WHOLE_EVERY_MIN);
    assert_eq!(after(100), Duration::from_secs(2), "a twentieth of the time");
    assert_eq!(after(2_000), WHOLE_EVERY_MAX);
    assert_eq!(after(60_000), Duration::from_secs(120), "and never all of it");
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_goes_back_as_it_came() {
    let cursor = Arc::new(cursor());
    let lease = cursor.lease();
    let tickets = claim(&cursor, "t1", &["sent", "unsent"]);
    let token: Token = "t2".into();
    cursor.begin_claim(&token);
    cursor.end_claim(&token, Instant::now(), Look::Whole, [("untold", 0)].into_iter(), None);
    lease.note_unsent([tickets[1]]);
    for which in ["once", "again"] {
        let mut left = cursor.left(25);
        left.unsent.sort();
        let expected = (vec!["sent".to_owned()], vec!["unsent".to_owned(), "untold".to_owned()]);
        assert_eq!((left.ids, left.unsent), expected, "{which}");
    }
}

#[test]
fn what_is_left_is_halved_down_to_one_row() {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let tokens = texts(&["t", "u"]);
    let left =
        Left { ids: texts(&["a", "b"]), unsent: texts(&["c"]), unsure: texts(&["u"]), tokens, budget: 3 };
    let (mut parts, mut ones) = (vec![left], Vec::new());
    while let Some(part) = parts.pop() {
        assert_eq!((part.tokens.len(), part.budget), (2, 3), "what guards them is the same");
        match part.halves() {
            Some((first, second)) => parts.extend([second, first]),
            None => ones.extend(part.first().map(str::to_owned)),
        }
    }
    assert_eq!(ones, ["u", "c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_passed_over_and_tried_again_after_a_minute() {
    let cursor = cursor();
    cursor.note_refused(2, true);
    tokio::time::advance(REFUSED_AGAIN_AFTER / 2).await;
    assert_eq!(cursor.refused(), 2);
    cursor.note_refused(3, true);
    tokio::time::advance(REFUSED_AGAIN_AFTER / 2).await;
    assert_eq!(cursor.refused(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_on_behind_what_is_refused_until_it_has_seen_all() {
    let cursor = cursor();
    for walk in 1..=20 {
        cursor.note_refused(walk * 1_000, false);
        tokio::time::advance(REFUSED_AGAIN_AFTER / 4).await;
        assert_eq!(cursor.refused(), walk * 1_000);
    }
    cursor.note_refused(20_500, true);
    tokio::time::advance(REFUSED_AGAIN_AFTER).await;
    assert_eq!(cursor.refused(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_claimed_is_passed_over_and_tried_again_after_a_minute() {
    let cursor = cursor();
    assert_eq!((cursor.pass_over("a"), cursor.passed()), (Some(true), vec!["a".to_owned()]));
    assert_eq!(cursor.pass_over("a"), None, "it comes although it is passed over");
    tokio::time::advance(REFUSED_AGAIN_AFTER).await;
    assert!(cursor.passed().is_empty());
    assert_eq!(cursor.pass_over("a"), Some(false), "that is told already");
    for n in 1..PASSED_MAX {
        assert_eq!(cursor.pass_over(&n.to_string()), Some(true));
    }
    assert_eq!(cursor.pass_over("one more"), None, "there are too many");
    tokio::time::advance(REFUSED_AGAIN_AFTER).await;
    assert_eq!(cursor.pass_over("one more"), Some(true), "what may have been mended makes room");
    let once = Cursor::new(LaneSpec::new("main".parse().unwrap()), Owner::new("r").passing());
    once.pass_over("a");
    tokio::time::advance(REFUSED_AGAIN_AFTER).await;
    assert_eq!(once.passed(), ["a"], "one pass ends, however long it takes");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_table_refused_holds_nothing() {
    let cursor = cursor();
    cursor.begin_claim(&"t".into());
    cursor.refuse_claim(&"t".into());
    assert!(cursor.left(25).unsure.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_missed_its_look_has_not_looked_from_the_beginning() {
    let cursor = cursor();
    let (token, latest): (Token, _) = ("t".into(), Timestamp::from_micros(10_000_000));
    cursor.begin_claim(&token);
    cursor.end_claim(&token, Instant::now(), Look::Whole, [("a", 0)].into_iter(), Some(latest));
    tokio::time::advance(WHOLE_EVERY_MIN).await;
    cursor.begin_claim(&token);
    cursor.miss();
    cursor.end_claim(&token, Instant::now(), Look::Whole, [].into_iter(), None);
    assert_eq!((cursor.has_missed(), cursor.look()), (true, Look::Whole));
}
