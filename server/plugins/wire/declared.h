#pragma once

#include <string>
#include <vector>

#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// What a question needs and a model does not declare, in words: chips, the precision, operators
// (OperatorsOf), and what the contract cannot say. Of a kind of which it declares nothing at all it
// is asked: it must refuse by itself what it does not know.
std::vector<std::string> Undeclared(const ModelInfo& model, const Problem& problem);

}  // namespace meshwright
