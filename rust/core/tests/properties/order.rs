//! Order-freedom: whatever order the calls of a turn end in, the transcript is the same.

use proptest::prelude::*;
use toolrelay_core::message::Message;
use toolrelay_core::reply::{Reply, Stop};
use toolrelay_core::run::io::{Effect, Input, Output};
use toolrelay_core::run::{OnPending, Run, RunConfig};
use toolrelay_core::transcript::Transcript;

use crate::choices::Choices;
use crate::world;

/// Plays one turn. What becomes of an effect is decided by its call and by how often the call had
/// one before; which effect ends next is decided by `order`.
fn play(inline: bool, reply: Reply, fates: &[Choices], order: &mut Choices) -> (Vec<String>, Vec<String>) {
    let tools = world::tools();
    let config = RunConfig { max_turns: 1, inline, events: false, seed: [7; 32] };
    let prompt = Some(Message::user("go"));
    let (mut run, _) = Run::start(Transcript::default(), prompt, OnPending::Refuse, &config).unwrap();
    let Some(Output::Effect(Effect::CallModel { id })) = run.poll() else { panic!("the model is called first") };
    run.handle(Input::ModelEnded { effect: id, reply }, &tools).unwrap();
    let mut open = Vec::new();
    loop {
        while let Some(output) = run.poll() {
            match output {
                Output::Effect(effect) => open.push(effect),
                Output::Event(_) => {}
                Output::Done(_) => return (shown(&run), requests(&run)),
            }
        }
        let effect = open.remove(order.below(open.len()));
        let place = place_of(&run, &effect);
        let mut fate = fates[place].clone();
        run.handle(world::end_of(&effect, &mut fate), &tools).unwrap();
    }
}

fn shown(run: &Run) -> Vec<String> {
    let messages = run.transcript().messages().iter();
    messages.map(|message| String::from_utf8(message.json().to_vec()).unwrap()).collect()
}

fn requests(run: &Run) -> Vec<String> {
    run.suspensions().iter().map(|request| serde_json::to_string(request).unwrap()).collect()
}

/// The place of an effect's call, doubled, and one more for the ask that follows a tool that parked.
fn place_of(run: &Run, effect: &Effect) -> usize {
    let calls = run.transcript().messages().last().unwrap().calls();
    let place = |id: &str| calls.iter().position(|call| call.id.as_str() == id).unwrap();
    match effect {
        Effect::CallTool { call, answer, .. } => place(call.as_str()) * 3 + usize::from(answer.is_some()),
        Effect::Ask { request, .. } if request.is_relay() => place(request.relay_calls()[0].id.as_str()) * 3,
        Effect::Ask { .. } => 2,
        Effect::CallModel { .. } | Effect::Abort { .. } => panic!("neither follows a reply here"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_completions_gives_the_same_transcript(
        inline in any::<bool>(),
        mut said in Choices::any(40),
        fates in prop::collection::vec(Choices::any(12), 12),
        mut one in Choices::any(20),
        mut other in Choices::any(20),
    ) {
        let reply = Reply { stop: Stop::Calls, ..world::reply(&mut said) };
        prop_assert_eq!(play(inline, reply.clone(), &fates, &mut one), play(inline, reply, &fates, &mut other));
    }
}
