#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Returns true if the text is a JSON object with "model_type" or "architectures", which makes it a
// config.json of the Hugging Face hub and not a model in Meshwright's own format.
bool LooksLikeHuggingFaceConfig(std::string_view json_text);

// Returns the model that a Hugging Face config.json describes, with the given `name`. Keys that the
// file omits get the defaults of the family's configuration class in transformers; sizes must be
// stated. Errors are INVALID_ARGUMENT and name every bad key at once, as `model.<key>`. For a
// family without an importer the reason is UNKNOWN_MODEL_FAMILY, and the message lists the families
// that have one. Limits are not checked: call Validate on the result.
absl::StatusOr<ModelSpec> ImportHuggingFaceConfig(std::string_view json_text,
                                                  std::string_view name);

}  // namespace meshwright
