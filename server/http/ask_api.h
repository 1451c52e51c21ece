#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_message.h"
#include "server/http/read_face.h"
#include "server/rpc/calls/work_pool.h"

namespace meshwright {

// Answers questions that take longer than a read. Nothing is stored, so a server that is read-only
// over HTTP answers them too. They are worked on one after the other, each up to
// face.ask_limit; a few may wait, and further ones are refused with reason SERVER_BUSY. A question
// ends when its reader goes away.
class AskApi {
 public:
  explicit AskApi(const ReadFace& face);

  // Returns nullopt if the method and the address are not those of a question.
  std::optional<HttpAnswer> Answer(const HttpRequest& request);

 private:
  const ReadFace& face_;
  WorkPool pool_;
};

// Returns the methods and addresses that AskApi knows: "POST /v1/plans:recommend", ...
std::vector<std::string> AskAddresses();

}  // namespace meshwright
