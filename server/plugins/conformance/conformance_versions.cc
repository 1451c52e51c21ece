// Checks of the versions: those of the contract that a model speaks, and its own.

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "search_space/base/clean_text.h"
#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/protocol/protocol.h"
#include "server/plugins/wire/model_stub.h"
#include "server/plugins/wire/question_wire.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;
using Stub = ConformanceSession::Stub;

constexpr std::size_t kVersionPlans = 16;
constexpr std::size_t kLongestVersion = 64;
constexpr int kDistantVersion = 999;  // a major or minor that no model was written for
constexpr int kNewField = 15'000;     // a field that no current minor has

// Estimates are stored under the version, and people read it.
bool IsVersionText(const std::string& text) {
  constexpr std::string_view kLettersAndDigits =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const std::string allowed = std::string(kLettersAndDigits) + ".-+_~:";
  return !text.empty() && text.size() <= kLongestVersion &&
         kLettersAndDigits.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of(allowed) == std::string::npos;
}

absl::StatusOr<wire::GetInfoResponse> InfoFor(ConformanceSession& session, int major, int minor) {
  wire::GetInfoRequest request;
  request.set_protocol_major(major);
  request.set_protocol_minor(minor);
  request.set_caller("meshwright model check");
  return CallModel<wire::GetInfoResponse>(session.stub(), &Stub::GetInfo, request, {});
}

std::string Spoken(const wire::GetInfoResponse& info) {
  return fmt::format("{}.{}", info.protocol_major(), info.protocol_minor());
}

Finding CheckProtocol(ConformanceSession& session) {
  const auto info = InfoFor(session, kProtocolMajor, kProtocolMinor);
  if (!info.ok()) return Failed("GetInfo", info.status());
  if (info->protocol_major() != kProtocolMajor || info->protocol_minor() < 0) {
    return Failed(fmt::format("the model speaks protocol {}; this program speaks {}.{}",
                              Spoken(*info), kProtocolMajor, kProtocolMinor));
  }
  return Passed(fmt::format("protocol {}, version {}", Spoken(*info),
                            CleanText(info->version(), {.longest_bytes = kLongestVersion})));
}

// Checks that every caller gets the same: a minor version only adds, and a model was written for
// one major.
Finding CheckCallers(ConformanceSession& session) {
  const auto later = InfoFor(session, kProtocolMajor, kDistantVersion);
  const std::string caller =
      fmt::format("a caller of protocol {}.{}", kProtocolMajor, kDistantVersion);
  if (!later.ok()) return Failed(caller + " is refused", later.status());
  if (later->protocol_major() != kProtocolMajor) {
    return Failed(caller + " is told that the model speaks " + Spoken(*later));
  }
  const auto other = InfoFor(session, kDistantVersion, 0);
  if (other.ok() && other->protocol_major() == kDistantVersion) {
    return Failed(
        fmt::format("a caller of protocol {0}.0 is told that the model speaks {1}, which does "
                    "not exist; the model echoes the caller's version",
                    kDistantVersion, Spoken(*other)));
  }
  return Passed();
}

void AddNewField(google::protobuf::Message& message) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(kNewField, 1);
}

// Checks that a model ignores what a later minor adds.
Finding CheckNewFields(ConformanceSession& session) {
  const std::vector<ParallelPlan> plans = ConformancePlans(session.problem(), kVersionPlans);
  const auto plain = session.AskAbout(session.problem(), plans);
  if (!plain.ok()) return Passed();  // it answers nothing, which another check reports
  wire::OpenContextRequest question = ToContext(session.problem());
  AddNewField(question);
  AddNewField(*question.mutable_model());
  AddNewField(*question.mutable_workload());
  AddNewField(*question.mutable_cluster()->mutable_pools(0));
  const std::string fields = "with fields of a later minor version ";
  const auto context = session.Open(question);
  if (!context.ok()) return Failed(fields + "a question is refused", context.status());
  wire::Candidates candidates = ToCandidates(plans, session.problem());
  AddNewField(candidates);
  const auto raw = session.AskRaw(*context, candidates);
  if (!raw.ok()) return Failed(fields + "a batch is refused", raw.status());
  const auto newer = FromWire(*raw, plans.size(), false);
  if (!newer.ok()) return Failed(fields, newer.status());
  if (!std::ranges::equal(*plain, *newer, &AreAlike)) return Failed(fields + "answers change");
  return Passed();
}

Finding CheckVersions(ConformanceSession& session) {
  Finding protocol = CheckProtocol(session);
  if (protocol.outcome != CheckOutcome::kPassed) return protocol;
  const auto info = InfoFor(session, kProtocolMajor, kProtocolMinor);
  if (!info.ok()) return Failed("GetInfo", info.status());
  if (info->version().empty()) return Failed("it does not state its version");
  if (!IsVersionText(info->version())) {
    return Failed(fmt::format(
        "its version '{}' is not 1 to {} letters, digits and . - + _ ~ :, "
        "the first a letter or a digit",
        CleanText(info->version(), {.longest_bytes = kLongestVersion}), kLongestVersion));
  }
  for (const auto check : {&CheckCallers, &CheckNewFields}) {
    Finding finding = check(session);
    if (finding.outcome != CheckOutcome::kPassed) return finding;
  }
  return protocol;
}

}  // namespace

std::vector<ConformanceCheck> VersionChecks() {
  return {{"versions",
           "speaks protocol 1 to callers of every minor version, ignores fields of later ones, and "
           "states its own version",
           &CheckVersions}};
}

}  // namespace meshwright
