//! What fuzzing has found, checked again without it.

use std::path::Path;

use taskgate_fuzz::TARGETS;

#[test]
fn what_fuzzing_has_found_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (target, check) in TARGETS {
        let mut count = 0;
        for folder in ["corpus", "regressions"] {
            let Ok(entries) = std::fs::read_dir(root.join(folder).join(target)) else { continue };
            for entry in entries {
                let path = entry.expect("an entry").path();
                // What fails says which file it was.
                println!("{}", path.display());
                check(&std::fs::read(&path).expect("a file"));
                count += 1;
            }
        }
        assert!(count > 10, "{target} has a corpus of {count}");
    }
}
