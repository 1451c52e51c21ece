#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Whether the text is a JSON object with "model_type" or "architectures": a config.json of the
// Hugging Face hub rather than a model in Meshwright's own words.
bool LooksLikeHuggingFaceConfig(std::string_view json_text);

// The model that a Hugging Face config.json describes, called `name`. Keys that the file leaves out
// get the value that the family's configuration class in transformers gives them; sizes must be
// stated. Errors are INVALID_ARGUMENT and name every bad key at once, as `model.<key>`; a family
// without an importer has the reason UNKNOWN_MODEL_FAMILY and lists those that have one.
// Limits are not checked: call Validate on the result.
absl::StatusOr<ModelSpec> ImportHuggingFaceConfig(std::string_view json_text,
                                                  std::string_view name);

}  // namespace meshwright
