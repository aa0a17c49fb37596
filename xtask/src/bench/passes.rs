//! Reads `--time-report`: the passes of a link, and how long each took.

use super::measure::median;

/// A pass of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    pub name: String,
    /// Wall time in milliseconds.
    pub wall: f64,
    /// Processor time of all threads in milliseconds.
    pub cpu: f64,
}

/// The passes that the messages of a link report, in order. Passes with the same name become one.
pub fn read(messages: &str) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    for line in messages.lines() {
        let Some((times, name)) = line.split_once(" busy  ") else { continue };
        let mut words = times.split_whitespace();
        let mut number = |nth| words.nth(nth).and_then(|word| word.parse::<f64>().ok());
        // "WALL ms SHARE % CPU ms CPU BUSY"
        let (Some(wall), Some(cpu)) = (number(0), number(3)) else { continue };
        if name == "total" {
            continue;
        }
        match passes.iter_mut().find(|pass| pass.name == name) {
            Some(pass) => {
                pass.wall += wall;
                pass.cpu += cpu;
            }
            None => passes.push(Pass { name: name.to_owned(), wall, cpu }),
        }
    }
    passes
}

/// The medians of the passes of several links, in the order of the first link.
pub fn medians(links: &[Vec<Pass>]) -> Vec<Pass> {
    let names = links.first().into_iter().flatten().map(|pass| &pass.name);
    let median_of = |name: &String, time: fn(&Pass) -> f64| {
        let of = links.iter().filter_map(|link| link.iter().find(|pass| pass.name == *name));
        median(of.map(time)).unwrap_or_default()
    };
    let of = |name: &String| Pass {
        name: name.clone(),
        wall: median_of(name, |pass| pass.wall),
        cpu: median_of(name, |pass| pass.cpu),
    };
    names.map(of).collect()
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
        assert!((passes[0].cpu - 6.4).abs() < 1e-9);
        let other = vec![Pass { name: "lay out".into(), wall: 4.5, cpu: 7.4 }];
        let both = medians(&[passes, other]);
        assert!((both[0].wall - 4.0).abs() < 1e-9);
        assert!((both[0].cpu - 6.9).abs() < 1e-9);
    }
}
