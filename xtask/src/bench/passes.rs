//! Reads `--time-report`: the passes of a link, and how long each took.

use super::measure::median;

/// A pass of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    pub name: String,
    /// Wall time in milliseconds.
    pub wall: f64,
}

/// The passes that the messages of a link report, in order. Passes with the same name become one.
pub fn read(messages: &str) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for line in messages.lines() {
        let Some((times, name)) = line.split_once(" busy  ") else { continue };
        let Some(wall) = times.split_whitespace().next().and_then(|wall| wall.parse().ok()) else { continue };
        if name == "total" {
            continue;
        }
        match passes.iter_mut().find(|pass| pass.name == name) {
            Some(pass) => pass.wall += wall,
            None => passes.push(Pass { name: name.to_owned(), wall }),
        }
    }
    passes
}

/// The medians of the passes of several links, in the order of the first link.
pub fn medians(links: &[Vec<Pass>]) -> Vec<Pass> {
    let names = links.first().into_iter().flatten().map(|pass| &pass.name);
    let wall = |name: &String| {
        let of = links.iter().filter_map(|link| link.iter().find(|pass| pass.name == *name));
        median(of.map(|pass| pass.wall)).unwrap_or_default()
    };
    names.map(|name| Pass { name: name.clone(), wall: wall(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "warning: something\n\
                      \u{20}    3.200 ms  10.0 %      6.100 ms CPU  1.91 busy  lay out\n\
                      \u{20}    1.000 ms   3.0 %      1.100 ms CPU  1.10 busy  read, merge\n\
                      \u{20}    0.300 ms   1.0 %      0.300 ms CPU  1.00 busy  lay out\n\
                      \u{20}    4.500 ms 100.0 %      7.500 ms CPU  1.67 busy  total\n\
                      \u{20}        2 threads\n";
        let passes = read(report);
        assert_eq!(
            passes.iter().map(|pass| pass.name.as_str()).collect::<Vec<_>>(),
            ["lay out", "read, merge"]
        );
        assert!((passes[0].wall - 3.5).abs() < 1e-9);
        let other = vec![Pass { name: "lay out".into(), wall: 4.5 }];
        assert!((medians(&[passes, other])[0].wall - 4.0).abs() < 1e-9);
    }
}
