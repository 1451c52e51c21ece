#include "cli/reports/study_difference.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/reports/comparison.h"
#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"
#include "server/convert/question_answers.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

constexpr int kMaxFieldsShown = 40;

using Path = std::vector<MessageDifferencer::SpecificField>;

// Collects differences as fields with both values.
class FieldCollector : public MessageDifferencer::Reporter {
 public:
  void ReportAdded(const Message& first, const Message& second, const Path& path) override {
    Add(first, second, path, false, true);
  }
  void ReportDeleted(const Message& first, const Message& second, const Path& path) override {
    Add(first, second, path, true, false);
  }
  // A message that differs is reported after its fields.
  void ReportModified(const Message& first, const Message& second, const Path& path) override {
    if (path.back().field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return;
    Add(first, second, path, true, true);
  }

  std::vector<v1::FieldDifference> differences() && { return std::move(differences_); }

 private:
  static std::string Value(const Message& message, const FieldDescriptor& field, int index) {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return field.is_repeated() ? reflection.GetRepeatedString(message, &field, index)
                                 : reflection.GetString(message, &field);
    }
    std::string text;
    TextFormat::Printer printer;
    printer.SetSingleLineMode(true);
    printer.PrintFieldValueToString(message, &field, field.is_repeated() ? index : -1, &text);
    return text;
  }

  void Add(const Message& first, const Message& second, const Path& path, bool has_first,
           bool has_second) {
    v1::FieldDifference difference;
    std::string& name = *difference.mutable_field();
    for (const MessageDifferencer::SpecificField& part : path) {
      if (!name.empty()) name += '.';
      name += part.field->name();
      const int index = part.index >= 0 ? part.index : part.new_index;
      if (part.field->is_repeated() && index >= 0) name += fmt::format("[{}]", index);
    }
    const MessageDifferencer::SpecificField& last = path.back();
    if (has_first) difference.set_first(Value(first, *last.field, last.index));
    if (has_second) difference.set_second(Value(second, *last.field, last.new_index));
    differences_.push_back(std::move(difference));
  }

  std::vector<v1::FieldDifference> differences_;
};

// Returns the study in lines that begin with `word`, which has eight columns.
std::string Lines(std::string_view word, const v1::Study& study, int columns) {
  const std::string name =
      study.display_name().empty() ? "" : fmt::format(" ({})", study.display_name());
  const std::string text =
      fmt::format("{}{}: {}, {} on {}, {} devices, created {}", study.id(), name,
                  study.outcome().empty() ? study.state() : study.outcome(), study.model_name(),
                  study.cluster_name().empty() ? "a cluster" : study.cluster_name(),
                  CountText(study.device_count()), study.create_time());
  return Wrapped(text, columns, word, std::string(word.size(), ' '));
}

std::string OrNone(const std::string& value) { return value.empty() ? "-" : value; }

std::string QuestionTable(const v1::StudyDifference& difference, int columns) {
  if (difference.question().empty()) return "The questions are the same.\n";
  Table table({{.title = "field"}, {.title = "first"}, {.title = "second"}});
  for (const v1::FieldDifference& one : difference.question()) {
    if (&one == &*difference.question().begin() + kMaxFieldsShown) break;
    table.AddRow({one.field(), OrNone(one.first()), OrNone(one.second())});
  }
  const int rest = difference.question_size() - kMaxFieldsShown;
  return "The questions differ:\n" + table.Text(kIndent, columns) +
         (rest > 0 ? fmt::format("{}and {} more fields; --format json has all\n", kIndent, rest)
                   : "");
}

}  // namespace

v1::StudyDifference CompareStudies(const v1::GetStudyResponse& first,
                                   const v1::GetStudyResponse& second) {
  v1::StudyDifference difference;
  *difference.mutable_first() = first.study();
  *difference.mutable_second() = second.study();
  FieldCollector collector;
  MessageDifferencer differencer;
  differencer.ReportDifferencesTo(&collector);
  differencer.Compare(first.question(), second.question());
  for (v1::FieldDifference& one : std::move(collector).differences()) {
    *difference.add_question() = std::move(one);
  }
  const bool has_first = !first.result().plans().empty();
  const bool has_second = !second.result().plans().empty();
  if (has_first) *difference.mutable_first_plan() = first.result().plans(0).plan();
  if (has_second) *difference.mutable_second_plan() = second.result().plans(0).plan();
  if (has_first && has_second) {
    *difference.mutable_plans() =
        CompareEstimates(first.result().plans(0).estimate(), second.result().plans(0).estimate());
  }
  return difference;
}

std::string StudyDifferenceReport(const v1::StudyDifference& difference, int columns) {
  std::string text = Lines("first   ", difference.first(), columns) +
                     Lines("second  ", difference.second(), columns);
  text += "\n" + QuestionTable(difference, columns) + "\n";
  if (!difference.has_plans()) {
    for (const auto& [word, plan, has_plan] :
         {std::tuple("first", &difference.first_plan(), difference.has_first_plan()),
          std::tuple("second", &difference.second_plan(), difference.has_second_plan())}) {
      text += has_plan ? fmt::format("{} plan: {}\n", word, PlanWords(*plan))
                       : fmt::format("The {} study has no plan.\n", word);
    }
    return text;
  }
  const std::string plan = PlanWords(difference.first_plan());
  if (plan == PlanWords(difference.second_plan())) {
    text += Wrapped(fmt::format("Both launch {}.", plan), columns);
  } else {
    const std::string lead(std::string_view("second launches  ").size(), ' ');
    text += Wrapped(plan, columns, "first launches   ", lead);
    text += Wrapped(PlanWords(difference.second_plan()), columns, "second launches  ", lead);
  }
  return text + "\n" + ComparisonReport(difference.plans(), columns);
}

}  // namespace meshwright
