#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns, in words, what a question needs and a model does not declare: chips, the precision,
// operators (OperatorsOf), and what the contract cannot express. A model that lists nothing of a
// kind is sent the question, and must itself reject what it does not support.
std::vector<std::string> Undeclared(const ModelInfo& model, const Problem& problem);

// Returns true if a status is a model's refusal of a question, not a failure of the model.
bool IsRefusal(const absl::Status& status);

}  // namespace meshwright
