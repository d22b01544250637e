use super::*;

/// Each preset can be read, says what it needs, and has an example and a page whose files are valid.
#[test]
fn every_preset_is_sound() {
    use crate::upstream::presets;
    assert!(!presets::ALL.is_empty());
    let built = |preset: &&presets::Preset| cfg!(feature = "aws") || !preset.name.starts_with("aws-");
    for preset in presets::ALL.iter().filter(built) {
        let name = preset.name;
        assert!(!preset.table().is_empty(), "{name} cannot be read");
        let least =
            format!("[[upstream]]\nname = \"a\"\n[upstream.job]\ntool = \"t\"\npreset = \"{name}\"\n");
        let told = problems(&least);
        assert!(!preset.needs().is_empty() && told.len() >= preset.needs().len(), "{told:?}");
        for (told, (key, _)) in told.iter().zip(preset.needs()) {
            assert_eq!(*told, format!("the preset \"{name}\" needs `with.{key}`"));
        }
        let example = fs::read_to_string(repository().join(format!("examples/job-{name}.toml")));
        let page = fs::read_to_string(repository().join(format!("docs/job-{name}.md"))).expect("its page");
        let (_, rest) = page.split_once("```toml\n").expect("an example");
        for text in [&example.expect("its example"), rest.split("```").next().expect("its end")] {
            let config = valid(text);
            let UpstreamServer::Job(tool) = &config.upstreams[0].server else { panic!("a job") };
            let printed = config.to_toml();
            let UpstreamServer::Job(same) = &valid(&printed).upstreams[0].server else { panic!("{printed}") };
            assert_eq!(same, tool);
        }
        let of_preset = preset.table();
        let settings = of_preset.get("with").and_then(|with| with.get_ref().as_table());
        let settings = settings.into_iter().flat_map(|with| with.keys()).map(|key| key.get_ref().to_string());
        for key in settings.chain(preset.needs().into_iter().map(|(key, _)| key)) {
            assert!(page.contains(&format!("| `{key}` |")), "the page of {name} does not explain {key}");
        }
    }
}
