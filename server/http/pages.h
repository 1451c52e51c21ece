#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace meshwright {

// Answers with a file of the dashboard that is compiled into the program, compressed if the reader
// takes that, or with 304 if the reader has it already. Other paths are answered with 404. A
// program that was built without the pages says so at "/".
HttpResponse AnswerPage(const HttpRequest& request);

// Returns the text of a file of the dashboard by its name, without a folder; nullopt if there is no
// such file.
std::optional<std::string> PageText(std::string_view name);

}  // namespace meshwright
