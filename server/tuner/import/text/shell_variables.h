#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// Variables of a script, and the expansion of words by them. Nothing is executed. What has no value
// (a variable that the script does not set, a command in "$(...)") stays in the text as a mark with
// its name, which UnresolvedIn finds. So do all variables once the values that were put in place of
// variables have more than 64 MiB together, since a few lines can double a text without end.
class ShellVariables {
 public:
  // `stated` are values from outside: they win over assignments of the script.
  explicit ShellVariables(std::map<std::string, std::string> stated);

  void Assign(const std::string& name, std::vector<std::string> values, bool appends);
  void AssignText(const std::string& name, std::string value, bool appends);

  // Returns the words that an unexpanded word becomes: unquoted variables are split at blanks,
  // and a list in quotes gives its items.
  [[nodiscard]] std::vector<std::string> Words(std::string_view raw) const;

  // Returns the word as one text, as in an assignment.
  [[nodiscard]] std::string Text(std::string_view raw) const;

  // Expands a here-document, in which quotes are plain characters.
  [[nodiscard]] std::string Document(std::string_view raw) const;

  // Returns the variables that have one text as their value, without marks.
  [[nodiscard]] std::map<std::string, std::string> Texts() const;

 private:
  friend class WordExpander;
  [[nodiscard]] const std::vector<std::string>* Find(const std::string& name) const;
  // Counts values that take the place of a variable; returns false if there are too many.
  bool CanExpandTo(const std::vector<std::string>& values) const;

  std::map<std::string, std::string> stated_;
  std::map<std::string, std::vector<std::string>> values_;
  mutable std::size_t expanded_bytes_ = 0;  // so far
};

// Returns the name of the first mark in an expanded text, such as "$NNODES"; empty if there is
// none.
std::string UnresolvedIn(std::string_view text);

// Returns the text with the names of marks in their place.
std::string Shown(std::string_view text);

}  // namespace meshwright
