//! The tool as a partner in a pipe.

mod run;

use run::{UNIT, command};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

#[test]
fn answers_come_line_by_line() {
    let mut child = command(&["eval", UNIT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    let mut answer = String::new();
    // The second write ends in the middle of a line, the third in a comment: each whole line is
    // answered all the same.
    for (text, answers) in [
        ("3c00,0,0,0\t3c00,0,0,0\t0\n", 1),
        ("3c00,0,0,0\t4000,0,0,0\t0\n3c00,0,", 1),
        ("0,0\t4200,0,0,0\t0\n# so far\n\n", 1),
        ("0,0,0,0\t0,0,0,0\t0\n0,0,0,0\t0,0,0,0\t1\n", 2),
    ] {
        to.write_all(text.as_bytes()).unwrap();
        for _ in 0..answers {
            from.read_line(&mut answer).unwrap();
        }
    }
    assert_eq!(answer, "3f800000\n40000000\n40400000\n0\n1\n");
    // As many as are answered together, and more, each with another answer, with empty lines among them.
    for count in [9, 10, 16, 17, 63, 64, 65, 130] {
        let text: String = (0..count).map(|c| format!("0,0,0,0\t0,0,0,0\t{c:x}\n{}", ["", "\n"][c / 16 % 2])).collect();
        to.write_all(text.as_bytes()).unwrap();
        for c in 0..count {
            answer.clear();
            from.read_line(&mut answer).unwrap();
            assert_eq!(answer, format!("{c:x}\n"));
        }
    }
    answer.clear();
    drop(to);
    assert_eq!(from.read_line(&mut answer).unwrap(), 0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    for arguments in [&["generate", UNIT, "--count", "1000000"][..], &["units", "--json"], &["--help"]] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}
