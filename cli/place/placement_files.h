#pragma once

#include <string>
#include <vector>

#include "cli/program/field_names.h"
#include "server/placement/question.h"

namespace meshwright {

struct PlacementFiles {
  StatedPlacement stated = {};
  FieldNames names = {};
  std::vector<std::string> notes = {};  // on how models were read, for people
};

// Reads the files of `place`: {"jobs": [...]} and {"clusters": [...]}, or only the lists, as JSON
// or YAML. A path in a file starts from the folder of that file. Reads everything even if a part of
// it is wrong.
PlacementFiles ReadPlacementFiles(const std::string& jobs, const std::string& clusters);

}  // namespace meshwright
