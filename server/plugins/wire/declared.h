#pragma once

#include <string>
#include <vector>

#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns, in words, what a question needs and a model does not declare: chips, the precision,
// operators (OperatorsOf), and what the contract cannot express. A model that declares nothing of a
// kind is asked: it must refuse by itself what it does not know.
std::vector<std::string> Undeclared(const ModelInfo& model, const Problem& problem);

}  // namespace meshwright
