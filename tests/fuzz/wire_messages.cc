#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/util/message_differencer.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "proto/json/json_tree.h"
#include "proto/json/text_fields.h"
#include "search_space/base/clean_text.h"
#include "server/auth/callers.h"
#include "server/convert/convert.h"
#include "server/convert/job_report_wire.h"
#include "server/convert/status_wire.h"
#include "server/http/http_message.h"
#include "server/http/json_body.h"
#include "server/http/listen_address.h"
#include "server/http/query_fields.h"
#include "server/http/request_checks.h"
#include "server/http/url.h"
#include "server/rpc/calls/request_limits.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "tests/fuzz/targets.h"

namespace meshwright {
namespace {

using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;

// Clients take 8 KiB of metadata, in which a status travels.
constexpr std::size_t kLongestDetails = 8 << 10;

const Knowledge& FuzzKnowledge() {
  static const auto* const kKnowledge = new Knowledge(LoadKnowledge("").value());
  return *kKnowledge;
}

// The law of an error that is sent to a client.
BrokenLaw SentErrorLaw(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  const grpc::Status sent = ToGrpc(status);
  return First({ErrorLaw(status), TextLaw(sent.error_message()),
                Holds(sent.error_details().size() + sent.error_message().size() <= kLongestDetails,
                      "an error fits into a client's metadata")});
}

// A message that is read without a mistake is written and read as the same message.
BrokenLaw JsonLaw(const Message& message) {
  const std::string text = PrintJson(message, {});
  const std::unique_ptr<Message> again(message.New());
  if (!ParseJson(text, "", *again).empty()) return "what is written can be read: " + text;
  if (PrintJson(*again, {}) != text) return "what is read again is written as before: " + text;
  if (!ReadJsonTree(PrintJson(message, {.multiline = true})).ok()) return "lines are JSON too";
  return std::nullopt;
}

// Reads JSON as a message; returns its mistakes through `found`.
template <typename Wire>
BrokenLaw ReadLaw(std::string_view input, Wire& message, std::vector<FieldViolation>& found) {
  found = ParseJson(input, "", message);
  if (auto broken = ViolationsLaw(found)) return broken;
  return found.empty() ? JsonLaw(message) : std::nullopt;
}

BrokenLaw TuneLaw(const v1::TuneRequest& request, std::vector<FieldViolation> found) {
  const auto study = FromWire(request, FuzzKnowledge(), std::move(found));
  if (!study.ok()) return SentErrorLaw(study.status());
  const v1::TuneRequest stated = ToWire(study->request);
  const auto again = FromWire(stated, FuzzKnowledge());
  if (!again.ok()) return "an accepted request is accepted again: " + again.status().ToString();
  return Holds(MessageDifferencer::Equals(ToWire(again->request), stated),
               "an accepted request is read as the same request");
}

BrokenLaw EvaluateLaw(const v1::EvaluateCase& message, std::vector<FieldViolation> found) {
  QuestionResolver resolver(FuzzKnowledge());
  const auto resolved = FromWire(message, resolver, std::move(found));
  return SentErrorLaw(resolved.status());
}

}  // namespace

BrokenLaw JsonTextLaw(std::string_view input) {
  const auto tree = ReadJsonTree(input);
  if (auto broken = ErrorLaw(tree.status())) return broken;
  const auto quoted = ReadJsonTree(QuotedJson(input));
  if (!quoted.ok()) return "a quoted text is JSON: " + quoted.status().ToString();
  const auto* text = std::get_if<std::string>(&quoted->value);
  if (text == nullptr) return "a quoted text is a text";
  // Control characters are JSON, only not of our fields.
  std::string printable(input);
  for (char& c : printable) c = c == '\x7f' || static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  if (TextMistake(printable, TextLayout::kOneLine).has_value()) return std::nullopt;
  return Holds(*text == input, "a quoted text is read as itself");
}

BrokenLaw TuneRequestLaw(std::string_view input) {
  v1::TuneRequest request;
  std::vector<FieldViolation> found;
  if (auto broken = ReadLaw(input, request, found)) return broken;
  if (const absl::Status limits = CheckLimits(request); !limits.ok()) return SentErrorLaw(limits);
  return TuneLaw(request, std::move(found));
}

BrokenLaw CaseLaw(std::string_view input) {
  v1::EvaluateCase message;
  std::vector<FieldViolation> found;
  if (auto broken = ReadLaw(input, message, found)) return broken;
  if (const absl::Status limits = CheckLimits(message); !limits.ok()) return SentErrorLaw(limits);
  return EvaluateLaw(message, std::move(found));
}

BrokenLaw JobReportLaw(std::string_view input) {
  v1::BatchCreateJobReportsRequest reports;
  std::vector<FieldViolation> found;
  if (auto broken = ReadLaw(input, reports, found)) return broken;
  if (const absl::Status limits = CheckLimits(reports); !limits.ok()) return SentErrorLaw(limits);
  return SentErrorLaw(ReportMistakes(reports, FuzzKnowledge(), std::move(found)));
}

BrokenLaw WireBytesLaw(std::string_view input) {
  // It says of every message that is none that it is none.
  static const auto* const kSilent = new google::protobuf::LogSilencer;
  static_cast<void>(kSilent);
  const std::string bytes(input);
  if (v1::TuneRequest request; request.ParseFromString(bytes)) {
    if (auto broken = SentErrorLaw(CheckLimits(request))) return broken;
    if (auto mistakes = TextMistakes(request, ""); !mistakes.empty()) {
      if (auto broken = ViolationsLaw(mistakes)) return broken;
      CleanTexts(request);
      if (!TextMistakes(request, "").empty()) return "cleaned texts have no mistakes";
    }
    if (auto broken = First({JsonLaw(request), TuneLaw(request, {})})) return broken;
  }
  if (v1::EvaluateCase message; message.ParseFromString(bytes)) {
    if (auto broken = EvaluateLaw(message, {})) return broken;
  }
  return std::nullopt;
}

BrokenLaw QueryLaw(std::string_view input) {
  if (const auto path = DecodePath(input); path.has_value() && path->empty()) {
    return "a path has a part";
  }
  const auto values = DecodeQuery(input);
  if (!values.has_value()) return std::nullopt;
  v1::ListStudiesRequest studies;
  v1::ListMeasurementsRequest measurements;
  v1::ListAuditEventsRequest events;
  v1::WatchStudyRequest watch;
  for (Message* message :
       std::initializer_list<Message*>{&studies, &measurements, &events, &watch}) {
    const auto found = FillFromQuery(*values, *message);
    if (auto broken = ViolationsLaw(found)) return broken;
    if (!found.empty()) continue;
    const auto mistakes = TextMistakes(*message, "");
    if (auto broken = ViolationsLaw(mistakes)) return broken;
    if (!mistakes.empty()) continue;
    if (auto broken = First({SentErrorLaw(CheckLimits(*message)), JsonLaw(*message)})) {
      return broken;
    }
  }
  return std::nullopt;
}

BrokenLaw HttpTextsLaw(std::string_view input) {
  const std::string text(input);
  const std::string first = text.substr(0, text.find('\n'));
  const HttpRequest request = {.method = "POST",
                               .path = first,
                               .host = first,
                               .origin = first,
                               .content_type = "application/json",
                               .authorization = first,
                               .body = text};
  v1::CreateStudyRequest study;
  const absl::Status body = ReadJsonBody(request, {{"request_id", first}}, study);
  const HttpRequest other = {.method = "POST", .content_type = first, .body = "{}"};
  v1::CreateStudyRequest empty;
  return First({SentErrorLaw(body), SentErrorLaw(ReadJsonBody(other, {}, empty)),
                SentErrorLaw(CheckOrigin(request)), SentErrorLaw(ReadOnly(request)),
                ErrorLaw(ReadListenAddress(first).status()),
                Holds(TokenOf(text).value_or("").size() <= text.size(),
                      "a token is no longer than its field")});
}

}  // namespace meshwright
