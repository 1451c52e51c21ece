#include "server/engine/journal_events.h"

#include "search_space/spec/choices.h"

namespace meshwright {

bool EndsStudy(const EventRecord& event) {
  if (event.kind != kStateEventKind) return false;
  const auto state = ParseChoice<StudyState>(event.payload);
  return state.has_value() && IsTerminal(*state);
}

}  // namespace meshwright
