#include "server/tuner/question/knowledge.h"

#include <utility>

#include "search_space/base/status.h"

namespace meshwright {

absl::StatusOr<Knowledge> LoadKnowledge(std::string_view extra_chip_folder) {
  ASSIGN_OR_RETURN(Catalogue chips, Catalogue::Load(extra_chip_folder));
  ASSIGN_OR_RETURN(FrameworkLibrary frameworks, FrameworkLibrary::LoadBuiltIn());
  return Knowledge{.chips = std::move(chips), .frameworks = std::move(frameworks)};
}

}  // namespace meshwright
