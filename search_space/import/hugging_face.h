#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/model.h"

namespace meshwright {

// A model that was read from somebody else's file, and what a reader of the answer should know
// about it: parts that were left out, names that were not known.
struct ImportedModel {
  ModelSpec model = {};
  std::vector<std::string> notes = {};
};

// Returns true if the text is a JSON object that is a configuration of a model or another file from
// beside its weights, and not a model in Meshwright's own format.
bool LooksLikeHuggingFaceConfig(std::string_view json_text);

// Returns the model that a config.json of the Hugging Face hub describes, with the given `name`. It
// goes by the file's keys; keys that the file omits get the values of the family's class in
// transformers, and an unknown family is read by its keys only. Of a model with towers for
// pictures or sound, the language model is read. Errors are INVALID_ARGUMENT and name every bad key
// at once, as `model.<key>`; a key that may change the layers and is not understood is one of them.
// The reason UNKNOWN_MODEL_FAMILY says that the file is not of a decoder. Limits are not checked:
// call Validate on the result.
absl::StatusOr<ImportedModel> ImportHuggingFaceConfig(std::string_view json_text,
                                                      std::string_view name);

}  // namespace meshwright
