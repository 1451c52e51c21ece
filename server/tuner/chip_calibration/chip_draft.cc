#include "server/tuner/chip_calibration/chip_draft.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/spec/choices.h"
#include "vendor_models/chip_text.h"

namespace meshwright {

ChipDraft::ChipDraft(const ChipEntry& base, std::string origin)
    : entry_(base), origin_(std::move(origin)) {}

bool ChipDraft::IsPublished(std::string_view figure) const {
  const ChipFigure* found = FindFigure(entry_, figure);
  return found != nullptr && found->provenance == Provenance::kPublished;
}

void ChipDraft::Set(std::string_view name, std::string value, const FigureOrigin& origin) {
  Note(name, value, origin.provenance);
  SetFigure(entry_, Made(name, std::move(value), origin));
}

void ChipDraft::SetRow(const std::string& name, std::string value, const FigureOrigin& origin) {
  Note(name, value, origin.provenance);
  std::erase_if(entry_.figures, [&name](const ChipFigure& f) { return f.name == name; });
  entry_.figures.push_back(Made(name, std::move(value), origin));
}

void ChipDraft::RemoveRow(const std::string& name) {
  Note(name, "removed", Provenance::kAssumed);
  std::erase_if(entry_.figures, [&name](const ChipFigure& f) { return f.name == name; });
}

ChipFigure ChipDraft::Made(std::string_view name, std::string value,
                           const FigureOrigin& origin) const {
  return {.name = std::string(name),
          .value = std::move(value),
          .source = origin.what.empty() ? origin_ : fmt::format("{}; {}", origin_, origin.what),
          .provenance = origin.provenance,
          .confidence = origin.confidence};
}

void ChipDraft::Note(std::string_view name, std::string after, Provenance provenance) {
  const ChipFigure* old = FindFigure(entry_, name);
  const std::string before = old == nullptr ? "" : old->value;
  if (before == after) return;
  changes_.push_back({.name = std::string(name),
                      .before = before,
                      .after = std::move(after),
                      .provenance = provenance});
}

}  // namespace meshwright
