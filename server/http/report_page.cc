#include "server/http/report_page.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "server/http/pages.h"

namespace meshwright {
namespace {

// Returns JSON that cannot end the element that it stands in: in JSON, '<' only stands in strings.
std::string InElement(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string TrimmedEnd(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text);
}

std::string AnswersText(const std::vector<std::pair<std::string, std::string>>& answers) {
  std::string text = "{";
  for (const auto& [address, json] : answers) {
    if (text.size() > 1) text += ',';
    text += fmt::format("\n\"{}\":{}", address, InElement(TrimmedEnd(json)));
  }
  return text + "\n}";
}

// Returns the text of a mark of web/tools/pack.mjs: a file of the pages, or the answers.
std::optional<std::string> TextOf(std::string_view mark, const std::string& answers) {
  if (mark == "answers") return answers;
  return PageText(mark);
}

}  // namespace

absl::StatusOr<std::string> ReportPage(
    const std::vector<std::pair<std::string, std::string>>& answers) {
  constexpr std::string_view kMark = "@@";
  const std::optional<std::string> form = PageText("report.html");
  if (!form.has_value()) {
    return absl::FailedPreconditionError(
        "this program was built without the pages of the dashboard, because there was no Node");
  }
  const std::string answers_text = AnswersText(answers);
  const std::string_view rest = *form;
  std::string page;
  std::size_t at = 0;
  while (true) {
    const std::size_t begin = rest.find(kMark, at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = rest.find(kMark, begin + kMark.size());
    const std::string_view mark = rest.substr(begin + kMark.size(), end - begin - kMark.size());
    const std::optional<std::string> text = TextOf(mark, answers_text);
    if (!text.has_value()) {
      return absl::InternalError(fmt::format("the pages have no file '{}'", mark));
    }
    page += rest.substr(at, begin - at);
    page += *text;
    at = end + kMark.size();
  }
  page += rest.substr(at);
  return page;
}

std::vector<std::string> ReportAddresses(std::string_view study_id) {
  const std::string study = fmt::format("v1/studies/{}", study_id);
  return {"v1/server",
          study,
          study + "/plans?page_size=100",
          study + "/trials?page_size=1000",
          study + "/paretoTrials?page_size=1000",
          study + "/attempts",
          study + ":watch"};
}

}  // namespace meshwright
