//! Every kind of function and row, in every version that has it.

use super::super::blob::{self, Edition, blob};
use super::super::case::{Case, Source};
use super::super::linked::survives;
use super::super::shapes::shapes;
use super::common::{OLD, at_places, in_order, read, shows};
use super::files::Place;

/// The sentence behind what an edition's readers must show.
pub fn of_edition(edition: Edition, place: &'static str) -> Source {
    if edition == Edition::V3 { Source::Sframe(place) } else { OLD }
}

pub fn cases(place: Place) -> Vec<Case> {
    let mut cases = Vec::new();
    for edition in Edition::ALL.into_iter().filter(|edition| edition.is_for(place.abi)) {
        let functions = ["first", "second", "third"].map(|name| blob::function(place.abi, name));
        let placed = in_order(&functions);
        let bytes = at_places(blob(place.abi, edition, &functions), &placed);
        let source = of_edition(edition, "Frame Row Entries");
        let family = format!("rows/ordinary-{}", edition.name());
        cases.push(
            read(place, &family, "three functions with frames by the stack and the frame pointer", &bytes)
                .facts([survives(source), shows(place.abi, placed, source)]),
        );
    }
    for edition in Edition::ALL.into_iter().filter(|edition| edition.is_for(place.abi)) {
        for shape in shapes(place.abi).into_iter().filter(|shape| shape.fits(edition)) {
            let functions = [blob::function(place.abi, "first"), shape.function];
            let placed = in_order(&functions);
            let bytes = at_places(blob(place.abi, edition, &functions), &placed);
            let source = of_edition(edition, shape.place);
            let family = format!("rows/{}-{}", shape.name, edition.name());
            cases.push(
                read(place, &family, shape.about, &bytes)
                    .facts([survives(source), shows(place.abi, placed, source)]),
            );
        }
    }
    cases
}
