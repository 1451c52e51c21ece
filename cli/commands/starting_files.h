#pragma once

#include <span>
#include <string_view>

namespace meshwright {

// A file that `meshwright init` writes: valid as it stands, with every field that the input takes.
// Its lines are of three kinds: fields, comments ("# Tokens of ...") and fields that are left out
// ("#sliding_window: 4096"), which count once the "#" is removed.
struct StartingFile {
  std::string_view name = {};
  std::string_view text = {};
};

std::span<const StartingFile> StartingFiles();

}  // namespace meshwright
