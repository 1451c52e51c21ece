#include "proto/json/text_fields.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "search_space/base/clean_text.h"
#include "search_space/base/secrets.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The fields that take several lines: commands, notes, logs and configurations.
constexpr std::string_view kFieldsOfLines[] = {
    "meshwright.v1.Attempt.log_head",
    "meshwright.v1.Attempt.log_tail",
    "meshwright.v1.ConfigFile.text",
    "meshwright.v1.CreateJobReportRequest.note",
    "meshwright.v1.GetTrialLogsResponse.text",
    "meshwright.v1.JobTemplate.command",
    "meshwright.v1.JobTemplate.environment",
    "meshwright.v1.Measurement.note",
    "meshwright.v1.RankedPlan.ExportsEntry.value",
    "meshwright.v1.Study.note",
    "meshwright.v1.UpdateStudyRequest.note",
};
// The fields that hold JSON in a string. The parser of that JSON checks the strings in it.
constexpr std::string_view kFieldsOfJson[] = {
    "meshwright.v1.TuneRequest.hugging_face_config_json",
};

// The fields that hold cases. Each case is checked when it is read, so that a bad one does not fail
// the others.
constexpr std::string_view kFieldsOfCases[] = {
    "meshwright.v1.EvaluatePlansRequest.cases",
};

bool IsListed(const FieldDescriptor& field, std::span<const std::string_view> names) {
  return std::ranges::find(names, std::string_view(field.full_name())) != names.end();
}

bool IsText(const FieldDescriptor& field) { return field.type() == FieldDescriptor::TYPE_STRING; }

TextLayout LayoutOf(const FieldDescriptor& field) {
  return IsListed(field, kFieldsOfLines) ? TextLayout::kLines : TextLayout::kOneLine;
}

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

std::string Join(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

std::vector<const FieldDescriptor*> StatedFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

class Checker {
 public:
  void Check(const Message& message, const std::string& path) {
    for (const FieldDescriptor* const field : StatedFields(message)) {
      if (!IsText(*field) && !IsMessage(*field)) continue;
      if (IsListed(*field, kFieldsOfCases)) continue;
      const std::string field_path = Join(path, field->name());
      if (!field->is_repeated()) {
        CheckOne(message, *field, field_path);
        continue;
      }
      const int count = message.GetReflection()->FieldSize(message, field);
      for (int i = 0; i < count; ++i) CheckElement(message, *field, i, field_path);
    }
  }

  std::vector<FieldViolation> violations() && { return std::move(violations_); }

 private:
  void CheckOne(const Message& message, const FieldDescriptor& field, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    if (IsMessage(field)) return Check(reflection.GetMessage(message, &field), path);
    std::string scratch;
    CheckText(field, reflection.GetStringReference(message, &field, &scratch), path);
  }

  void CheckElement(const Message& message, const FieldDescriptor& field, int i,
                    const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const std::string element_path = fmt::format("{}[{}]", path, i);
    if (IsMessage(field)) {
      return Check(reflection.GetRepeatedMessage(message, &field, i), element_path);
    }
    std::string scratch;
    CheckText(field, reflection.GetRepeatedStringReference(message, &field, i, &scratch),
              element_path);
  }

  void CheckText(const FieldDescriptor& field, const std::string& text, const std::string& path) {
    auto mistake = FieldTextMistake(field, text);
    if (!mistake.has_value()) return;
    violations_.push_back({.field = path, .description = *std::move(mistake)});
  }

  std::vector<FieldViolation> violations_;
};

std::string Clean(const std::string& text, TextLayout layout) {
  // Cleaning never makes a text longer, so none is cut.
  return CleanText(text,
                   {.longest_bytes = text.size(), .keeps_lines = layout == TextLayout::kLines});
}

}  // namespace

std::optional<std::string> FieldTextMistake(const FieldDescriptor& field, std::string_view text) {
  if (IsListed(field, kFieldsOfJson)) return std::nullopt;
  return TextMistake(text, LayoutOf(field));
}

std::vector<FieldViolation> TextMistakes(const Message& message, std::string_view prefix) {
  Checker checker;
  checker.Check(message, std::string(prefix));
  return std::move(checker).violations();
}

namespace {

// Changes every string of the message by a function of its field and its text.
template <typename Change>
void ChangeTexts(Message& message, const Change& change) {
  const Reflection& r = *message.GetReflection();
  for (const FieldDescriptor* const field : StatedFields(message)) {
    const int count = field->is_repeated() ? r.FieldSize(message, field) : 0;
    if (IsMessage(*field)) {
      if (!field->is_repeated()) ChangeTexts(*r.MutableMessage(&message, field), change);
      for (int i = 0; i < count; ++i) {
        ChangeTexts(*r.MutableRepeatedMessage(&message, field, i), change);
      }
    } else if (IsText(*field)) {
      if (!field->is_repeated()) {
        r.SetString(&message, field, change(*field, r.GetString(message, field)));
      }
      for (int i = 0; i < count; ++i) {
        r.SetRepeatedString(&message, field, i,
                            change(*field, r.GetRepeatedString(message, field, i)));
      }
    }
  }
}

}  // namespace

void CleanTexts(Message& message) {
  ChangeTexts(message, [](const FieldDescriptor& field, const std::string& text) {
    return Clean(text, LayoutOf(field));
  });
}

void MaskSecretTexts(Message& message) {
  ChangeTexts(message, [](const FieldDescriptor& /*field*/, std::string text) {
    MaskSecrets(text);
    return text;
  });
}

}  // namespace meshwright
