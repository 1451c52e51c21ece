#include "tests/layering/layering.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Case {
  std::string name;
  std::string path;
  std::string text;
  std::string message = {};  // part of the one violation; empty: none
  int line = 1;
};

std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "int x;\n";
  }
  return text;
}

const Case kCases[] = {
    // Arrows between folders.
    {"ItselfIsAllowed", "pruner/rules/memory.cc", "#include \"pruner/rules/prune_rule.h\"\n"},
    {"FloorBelowIsAllowed", "pruner/rules/memory.cc",
     "#include \"estimator/model/analytic_model.h\"\n"},
    {"FloorAbove", "search_space/spec/plan.cc", "#include \"pruner/pruner.h\"\n",
     "search_space/spec/ may not use pruner/"},
    {"SameFloor", "estimator/model/memory.cc", "\n\n#include \"vendor_models/catalogue.h\"\n",
     "estimator/model/ may not use vendor_models/", 3},
    {"PrunerUsesNoRecorder", "pruner/rules/history.cc", "#include \"recorder/recorder.h\"\n",
     "pruner/rules/ may not use recorder/"},
    {"TunerUsesFloorsBelow", "server/tuner/answers/run_study.cc",
     "#include \"estimator/model/memory.h\"\n#include \"pruner/pruner.h\"\n"},
    {"TunerUsesNoRecorder", "server/tuner/answers/run_study.cc",
     "#include \"recorder/recorder.h\"\n", "server/tuner/answers/ may not use recorder/"},
    {"TrialsAndAnswersNeverMeet", "server/tuner/trials/trial_study.cc",
     "#include \"server/tuner/answers/run_study.h\"\n",
     "server/tuner/trials/ may not use server/tuner/answers/"},
    {"RoomsAreOrdered", "server/tuner/question/problem.cc",
     "#include \"server/tuner/search/exhaustive.h\"\n",
     "server/tuner/question/ may not use server/tuner/search/"},
    {"TunerUsesNoRpc", "server/tuner/answers/run_study.cc", "#include \"server/rpc/server.h\"\n",
     "server/tuner/answers/ may not use server/rpc/"},
    {"ConvertUsesProto", "server/convert/convert.cc", "#include \"proto/json/json.h\"\n"},
    {"ProtoUsesNoRpc", "proto/json/json.cc", "#include \"server/rpc/server.h\"\n",
     "proto/json/ may not use server/rpc/"},
    {"RpcUsesNoEstimator", "server/rpc/service.cc", "#include \"estimator/model/memory.h\"\n",
     "server/rpc/ may not use estimator/model/"},
    {"LauncherUsesNoRecorder", "server/launchers/slurm/slurm_engine.cc",
     "#include \"recorder/recorder.h\"\n", "server/launchers/slurm/ may not use recorder/"},
    {"ServerUsesAllBelow", "server/main.cc",
     "#include \"server/rpc/server.h\"\n#include \"recorder/recorder.h\"\n"},
    {"ServerUsesNoCli", "server/main.cc", "#include \"cli/reports/table.h\"\n",
     "server/ may not use cli/reports/"},
    {"CommandsUseClientAndAnswers", "cli/commands/tune_command.cc",
     "#include \"server/rpc/client/client.h\"\n#include \"server/tuner/answers/sweep.h\"\n"},
    {"CommandsUseNoPruner", "cli/commands/tune_command.cc", "#include \"pruner/pruner.h\"\n",
     "cli/commands/ may not use pruner/"},
    {"MainUsesNoClient", "cli/main.cc", "#include \"server/rpc/client/client.h\"\n",
     "cli/ may not use server/rpc/client/"},
    {"NothingUsesTests", "server/main.cc", "#include \"tests/fake.h\"\n",
     "server/ may not use tests/"},
    {"SpacedDirective", "estimator/terms/x.cc", "  #  include  \"pruner/pruner.h\"  // why\n",
     "estimator/terms/ may not use pruner/"},
    {"UnknownFolder", "engine/x.cc", "int x;\n", "lies in no folder"},
    {"UnknownServerFolder", "server/cache/x.cc", "int x;\n", "lies in no folder"},
    {"ParentIsNoRoom", "server/tuner/x.cc", "int x;\n", "lies in no folder"},
    {"FolderNameIsNoPrefix", "pruner_old/x.cc", "int x;\n", "lies in no folder"},
    {"IncludeBesideTheFile", "pruner/pruner.cc", "#include \"rules.h\"\n", "starts at no folder"},
    {"GeneratedChipFiles", "vendor_models/catalogue.cc",
     "#include \"vendor_models/chip_files.h\"\n"},
    {"GeneratedFrameworkFiles", "estimator/frameworks/profile.cc",
     "#include \"estimator/frameworks/framework_files.h\"\n"},
    // Libraries.
    {"FmtEverywhere", "search_space/spec/plan.cc", "#include <fmt/format.h>\n"},
    {"StatusEverywhere", "pruner/pruner.cc", "#include \"absl/status/statusor.h\"\n"},
    {"LibraryInQuotes", "pruner/pruner.cc", "#include \"fmt/format.h\"\n", "in brackets"},
    {"TestLibraryInQuotes", "tests/pruner/pruner_test.cc", "#include \"gtest/gtest.h\"\n",
     "in brackets"},
    {"StatusInBrackets", "pruner/pruner.cc", "#include <absl/status/statusor.h>\n", "in quotes"},
    {"AsioInProcess", "server/process/command.cc", "#include <boost/asio/io_context.hpp>\n"},
    {"AsioInLaunchers", "server/launchers/jobs/job.cc", "#include <boost/asio/io_context.hpp>\n",
     "server/launchers/jobs/ may not include boost/asio/io_context.hpp"},
    {"OtherAbsl", "pruner/pruner.cc", "#include \"absl/strings/str_cat.h\"\n",
     "only absl/status is used"},
    {"JsonInSource", "search_space/import/hugging_face.cc", "#include <nlohmann/json.hpp>\n"},
    {"JsonInHeader", "search_space/import/hugging_face.h",
     "#pragma once\n#include <nlohmann/json.hpp>\n", "belongs into .cc files", 2},
    {"JsonDeclarationsInHeader", "vendor_models/object_reader.h",
     "#pragma once\n#include <nlohmann/json_fwd.hpp>\n"},
    {"JsonInPruner", "pruner/pruner.cc", "#include <nlohmann/json.hpp>\n",
     "pruner/ may not include nlohmann/json.hpp"},
    {"JsonInCli", "cli/output.cc", "#include <nlohmann/json_fwd.hpp>\n", "cli/ may not include"},
    {"ChecksumsInTuner", "server/tuner/question/digest.cc", "#include <openssl/evp.h>\n",
     "server/tuner/question/ may not include openssl/evp.h"},
    {"SqlInItsRoom", "recorder/sql/sqlite.cc", "#include <sqlite3.h>\n#include <libpq-fe.h>\n"},
    {"SqlInRecorder", "recorder/studies.cc", "#include <libpq-fe.h>\n",
     "recorder/ may not include libpq-fe.h"},
    {"StoreUsesNoRecorder", "recorder/store/schema.cc", "#include \"recorder/rows.h\"\n",
     "recorder/store/ may not use recorder/"},
    {"SqlInHeader", "recorder/sql/sql.h", "#pragma once\n#include <sqlite3.h>\n",
     "belongs into .cc files", 2},
    {"SqlInEngine", "server/engine/store.cc", "#include <sqlite3.h>\n",
     "server/engine/ may not include sqlite3.h"},
    {"SqlQuoted", "pruner/rules/history.cc", "#include \"sqlite3.h\"\n",
     "pruner/rules/ may not include sqlite3.h"},
    {"EigenInPruner", "pruner/pruner.cc", "#include <Eigen/Dense>\n", "pruner/ may not include"},
    {"LogInLibrary", "recorder/recorder.cc", "#include <spdlog/spdlog.h>\n",
     "recorder/ may not include spdlog"},
    {"LogInServer", "server/engine/engine.cc", "#include <spdlog/spdlog.h>\n"},
    {"GrpcInEngine", "server/engine/engine.cc", "#include <grpcpp/grpcpp.h>\n",
     "server/engine/ may not include grpcpp"},
    {"GrpcInRpc", "server/rpc/service.h", "#pragma once\n#include <grpcpp/grpcpp.h>\n"},
    {"ProtobufInEstimator", "estimator/fit/x.cc", "#include <google/protobuf/message.h>\n",
     "estimator/fit/ may not include google/protobuf"},
    {"GeneratedMessages", "server/convert/convert.h",
     "#pragma once\n#include \"meshwright/v1/problem.pb.h\"\n#include "
     "\"google/rpc/status.pb.h\"\n"},
    {"GeneratedMessagesInTuner", "server/tuner/search/x.cc",
     "#include \"meshwright/v1/problem.pb.h\"\n",
     "server/tuner/search/ may not include meshwright/v1"},
    {"GeneratedErrorsInSearchSpace", "search_space/base/status.cc",
     "#include \"google/rpc/status.pb.h\"\n", "search_space/base/ may not include google/rpc"},
    {"FlagsInRpc", "server/rpc/x.cc", "#include <CLI/CLI.hpp>\n",
     "server/rpc/ may not include CLI"},
    {"GtestInLibrary", "pruner/x.cc", "#include <gtest/gtest.h>\n", "only in tests/"},
    {"UnknownLibrary", "cli/x.cc", "#include <rapidjson/document.h>\n", "does not know"},
    {"TestsUseAll", "tests/recorder/x_test.cc",
     "#include <sqlite3.h>\n#include <gtest/gtest.h>\n#include \"server/rpc/service.h\"\n"},
    // Floors 1-3 are pure.
    {"ThreadInEstimator", "estimator/fit/x.cc", "#include <vector>\n#include <thread>\n",
     "starts no threads", 2},
    {"MutexInRecorder", "recorder/x.cc", "#include <mutex>\n", "starts no threads"},
    {"ThreadInTuner", "server/engine/engine.cc", "#include <thread>\n"},
    {"DurationIsNoClock", "search_space/base/units.h",
     "#pragma once\n#include <chrono>\nstd::chrono::duration<double> x;\n"},
    {"ClockInPruner", "pruner/pruner.cc",
     "#include <chrono>\nauto t = std::chrono::steady_clock::now();\n", "reads no clock", 2},
    {"ClockInRecorder", "recorder/x.cc", "auto t = std::chrono::system_clock::now();\n",
     "reads no clock"},
    {"ClockInComment", "recorder/x.cc", "int x;  // from system_clock, by the caller\n"},
    {"ClockInTuner", "server/tuner/search/x.cc", "auto t = std::chrono::steady_clock::now();\n"},
    // A request is resolved once.
    {"ResolvedAtTheEdge", "server/convert/x.cc",
     "auto study = ResolveStudy(request, knowledge);\n"},
    {"ResolvedInEngine", "server/engine/x.cc", "auto study = ResolveStudy(request, knowledge);\n",
     "server/engine/ may not call ResolveStudy()"},
    {"ResolvedInLauncher", "server/launchers/x.cc",
     "// ResolveProblem(\nauto problem = ResolveProblem(question, knowledge);\n",
     "server/launchers/ may not call ResolveProblem()", 2},
    {"ResolvedInTest", "tests/engine/x_test.cc",
     "auto problem = ResolveProblem(question, known);\n"},
    // Files.
    {"HeaderWithoutPragma", "pruner/x.h", "int x;\n", "without #pragma once"},
    {"FiveHundredLines", "pruner/x.cc", Lines(500)},
    {"TooLong", "tests/pruner/x_test.cc", Lines(501), "501 lines"},
};

class CheckSourceTest : public testing::TestWithParam<Case> {};

TEST_P(CheckSourceTest, FindsExactlyWhatIsWrong) {
  const Case& c = GetParam();
  const std::vector<Violation> found = CheckSource(c.path, c.text);
  if (c.message.empty()) {
    EXPECT_THAT(found, IsEmpty()) << found.front().message;
    return;
  }
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].file, c.path);
  EXPECT_EQ(found[0].line, c.line);
  EXPECT_THAT(found[0].message, HasSubstr(c.message));
}

INSTANTIATE_TEST_SUITE_P(All, CheckSourceTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
