#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/status.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// Returns the mistakes of the options, named by the fields on the wire.
std::vector<FieldViolation> MistakesOf(const KubernetesOptions& options);

// INVALID_ARGUMENT names every bad field.
absl::Status Validate(const KubernetesOptions& options);

// Returns true if the text may name a namespace, a queue or a job: [a-z0-9]([a-z0-9-]*[a-z0-9])? of
// at most `longest` characters.
bool IsKubernetesName(const std::string& text, std::size_t longest);

}  // namespace meshwright
