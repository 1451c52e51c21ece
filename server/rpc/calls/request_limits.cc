#include "server/rpc/calls/request_limits.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "proto/json/text_fields.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct ListLimit {
  std::string_view field;
  int most;
};

constexpr ListLimit kListLimits[] = {
    {"meshwright.v1.EvaluatePlansRequest.cases", kMaxCases},
    {"meshwright.v1.EvaluatePlansRequest.pairs", kMaxCases},
    {"meshwright.v1.EvaluatePlansRequest.history", kMaxRows},
    {"meshwright.v1.TuneRequest.history", kMaxRows},
    {"meshwright.v1.TrialRequest.replay", kMaxRows},
};

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

bool IsText(const FieldDescriptor& field) { return field.type() == FieldDescriptor::TYPE_STRING; }

int LongestList(const FieldDescriptor& field) {
  for (const ListLimit& limit : kListLimits) {
    if (limit.field == field.full_name()) return limit.most;
  }
  return IsText(field) || field.is_map() ? kMaxTexts : kMaxElements;
}

// A field that takes a line feed takes several lines.
std::size_t LongestText(const FieldDescriptor& field) {
  return FieldTextMistake(field, "\n").has_value() ? kMaxTextBytes : kMaxLinesBytes;
}

class Checker {
 public:
  void Check(const Message& message, const std::string& path) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* const field : fields) {
      if (IsFull()) return;
      const std::string at =
          path.empty() ? field->name() : fmt::format("{}.{}", path, field->name());
      if (field->is_repeated()) {
        CheckList(message, *field, at);
      } else if (IsMessage(*field)) {
        Check(message.GetReflection()->GetMessage(message, field), at);
      } else if (IsText(*field)) {
        std::string scratch;
        CheckText(*field, message.GetReflection()->GetStringReference(message, field, &scratch),
                  at);
      }
    }
  }

  [[nodiscard]] const std::vector<FieldViolation>& mistakes() const { return mistakes_; }

 private:
  // Nobody is told of more mistakes.
  [[nodiscard]] bool IsFull() const { return mistakes_.size() > kMaxListedFields; }

  void CheckList(const Message& message, const FieldDescriptor& field, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const int count = reflection.FieldSize(message, &field);
    if (const int most = LongestList(field); count > most) {
      Add(path, fmt::format("{} elements; must be at most {}", count, most));
      return;
    }
    if (!IsText(field) && !IsMessage(field)) return;
    const bool had_room = element_count_ <= kMaxElementsInAll;
    element_count_ += count;
    if (element_count_ > kMaxElementsInAll) {
      if (had_room) {
        Add(path, fmt::format("with this list, all lists have {} elements; must be at most {}",
                              element_count_, kMaxElementsInAll));
      }
      return;
    }
    for (int i = 0; i < count && !IsFull(); ++i) CheckElement(message, field, i, path);
  }

  void CheckElement(const Message& message, const FieldDescriptor& field, int i,
                    const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const std::string at = fmt::format("{}[{}]", path, i);
    if (IsMessage(field)) return Check(reflection.GetRepeatedMessage(message, &field, i), at);
    std::string scratch;
    CheckText(field, reflection.GetRepeatedStringReference(message, &field, i, &scratch), at);
  }

  void CheckText(const FieldDescriptor& field, const std::string& text, const std::string& path) {
    if (text.size() <= kMaxTextBytes) return;
    if (const std::size_t longest = LongestText(field); text.size() > longest) {
      Add(path, fmt::format("{} bytes; must be at most {}", text.size(), longest));
    }
  }

  void Add(const std::string& path, std::string description) {
    mistakes_.push_back({.field = path, .description = std::move(description)});
  }

  std::vector<FieldViolation> mistakes_;
  int element_count_ = 0;  // texts and messages in the lists so far
};

}  // namespace

absl::Status CheckLimits(const Message& request) {
  Checker checker;
  checker.Check(request, "");
  return checker.mistakes().empty() ? absl::OkStatus() : InvalidFields(checker.mistakes());
}

}  // namespace meshwright
