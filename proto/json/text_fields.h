#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace meshwright {

// Returns why a string field refuses a text (TextMistake), or nullopt if it takes it. The few
// fields that hold a command, a note or a log take several lines, all others one.
std::optional<std::string> FieldTextMistake(const google::protobuf::FieldDescriptor& field,
                                            std::string_view text);

// Returns every string of `message`, at any depth, that its field refuses, with its path below
// `prefix` as the JSON has it: `cluster.pools[0].name`. The cases of EvaluatePlansRequest are left
// out, because each has an answer of its own.
std::vector<FieldViolation> TextMistakes(const google::protobuf::Message& message,
                                         std::string_view prefix);

// Replaces in every string of `message` what its field would refuse (CleanText): for answers that
// go to a terminal, which may hold what other programs wrote.
void CleanTexts(google::protobuf::Message& message);

// Masks the secrets in every string of `message` (secrets.h).
void MaskSecretTexts(google::protobuf::Message& message);

}  // namespace meshwright
