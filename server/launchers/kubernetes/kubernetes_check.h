#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/status.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// What is wrong with the options, by the names of the wire's fields.
std::vector<FieldViolation> MistakesOf(const KubernetesOptions& options);

// INVALID_ARGUMENT that names every bad field.
absl::Status Validate(const KubernetesOptions& options);

// Whether it may be the name of a namespace, a queue or a job: [a-z0-9]([a-z0-9-]*[a-z0-9])?, at
// most so long.
bool IsKubernetesName(const std::string& text, std::size_t longest);

}  // namespace meshwright
