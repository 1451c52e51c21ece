#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace google::protobuf {
class Message;
class FieldDescriptor;
}  // namespace google::protobuf

namespace meshwright {

// Reads the stated fields of one message by name and collects their mistakes under the message's
// path. Fields are read by name because mistakes are reported by name, so one word serves for both.
// Asking for a name that the message does not have is a bug.
class MessageReader {
 public:
  // `message` and `found` must outlive the reader.
  MessageReader(const google::protobuf::Message& message, std::string path,
                std::vector<FieldViolation>& found)
      : message_(&message), path_(std::move(path)), found_(&found) {}

  // Return nullopt if the field is not stated.
  [[nodiscard]] std::optional<int> Int(std::string_view field) const;
  [[nodiscard]] std::optional<std::int64_t> Int64(std::string_view field) const;
  [[nodiscard]] std::optional<double> Double(std::string_view field) const;
  [[nodiscard]] std::optional<bool> Bool(std::string_view field) const;
  [[nodiscard]] std::optional<std::string> Text(std::string_view field) const;
  [[nodiscard]] std::optional<MessageReader> Child(std::string_view field) const;

  [[nodiscard]] std::vector<int> Ints(std::string_view field) const;
  [[nodiscard]] std::vector<std::string> Texts(std::string_view field) const;
  [[nodiscard]] std::vector<MessageReader> Children(std::string_view field) const;

  // Reads a field that holds one of a closed set of words. Another word is a mistake and reads as
  // nullopt.
  template <typename Enum>
  [[nodiscard]] std::optional<Enum> Choice(std::string_view field) const {
    const std::optional<std::string> word = Text(field);
    if (!word.has_value()) return std::nullopt;
    const std::optional<Enum> choice = ParseChoice<Enum>(*word);
    if (!choice.has_value()) AddWordMistake(field, *word, AllowedWords<Enum>());
    return choice;
  }

  // Returns the value. If `field` is not stated, adds a mistake and returns a default value.
  template <typename Value>
  [[nodiscard]] Value Required(std::string_view field, const std::optional<Value>& value) const {
    if (value.has_value()) return *value;
    Add(field, "missing; required");
    return Value();
  }
  [[nodiscard]] int RequiredInt(std::string_view field) const {
    return Required(field, Int(field));
  }

  // Returns the full path of a field, such as "model.layer_count".
  [[nodiscard]] std::string At(std::string_view field) const;
  // Adds a mistake; `description` is as in FieldViolation.
  void Add(std::string_view field, std::string description) const;
  void RequirePositive(std::string_view field, double value) const;
  // Returns true if a mistake of the field, or of something inside it, has been found.
  [[nodiscard]] bool HasMistakes(std::string_view field) const;
  void AddWordMistake(std::string_view field, const std::string& word,
                      const std::string& allowed) const;

 private:
  [[nodiscard]] const google::protobuf::FieldDescriptor& Field(std::string_view name) const;
  // Returns null if the field is not stated.
  [[nodiscard]] const google::protobuf::FieldDescriptor* Stated(std::string_view name) const;

  const google::protobuf::Message* message_;
  std::string path_;
  std::vector<FieldViolation>* found_;
};

}  // namespace meshwright
