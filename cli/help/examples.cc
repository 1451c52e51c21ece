#include "cli/help/examples.h"

#include <array>

namespace meshwright {
namespace {

// A test parses every line.
constexpr auto kExamples = std::to_array<Example>({
    {"meshwright init my-model", "three commented files to start from"},
    {"meshwright init", "the same in this folder"},
    {"meshwright tune --model model.yaml --workload workload.yaml --cluster cluster.yaml",
     "the best plans for a question in three files"},
    {"meshwright tune --model Qwen3-8B/ --workload workload.yaml --chip H200 --nodes 8",
     "a checkpoint's folder, and equal nodes stated by flags"},
    {"meshwright tune --from pretrain_gpt.sh --cluster slurm:gpu",
     "the plan of a launch script is the baseline, Slurm states the nodes"},
    {"meshwright place --jobs jobs.yaml --clusters clusters.yaml",
     "which of several jobs runs on which of several clusters"},
    {"meshwright place --jobs jobs.yaml --clusters clusters.yaml --objective deadline",
     "the same, so that as many jobs as possible meet max_days"},
    {"meshwright explain --model model.yaml --workload workload.yaml --cluster cluster.yaml",
     "why the best plan is best"},
    {"meshwright explain --from pretrain_gpt.sh --cluster cluster.yaml",
     "why the script's own plan is not"},
    {"meshwright evaluate --model m.yaml --workload w.yaml --chip H200 --nodes 2 --plan p.yaml",
     "an estimate of your plan"},
    {"meshwright evaluate --cases cases.jsonl", "estimates of many cases, one a line"},
    {"meshwright evaluate --from pretrain_gpt.sh --cluster cluster.yaml",
     "an estimate of the plan of a launch script"},
    {"meshwright compare mine.yaml theirs.yaml", "two cases, term by term"},
    {"meshwright compare mine.sh best.yaml --cluster cluster.yaml", "a launch script and a case"},
    {"meshwright compare a.yaml b.yaml --model m.yaml --workload w.yaml --cluster c.yaml",
     "two plans for one question"},
    {"meshwright trace --plan case.yaml", "one step over time, for ui.perfetto.dev"},
    {"meshwright trace --plan case.yaml --history runs.jsonl",
     "the same, corrected by measured runs"},
    {"meshwright export --plan case.yaml --framework megatron-core", "launch flags of one case"},
    {"meshwright export --from run.sh --cluster c.yaml --framework flagscale",
     "the plan of a launch script for another framework"},
    {"meshwright export --study study-0123456789ab --rank 2", "launch flags of a plan of a study"},
    {"meshwright refit --run run.json --fact fixed_per_step_seconds",
     "a constant of the framework that explains a measured step time"},
    {"meshwright refit --run run.json --fact fixed_buffers_bytes",
     "one that explains the measured memory"},
    {"meshwright history list", "the studies of the store, newest first"},
    {"meshwright history show study-0123456789ab --verbose", "all that is known of a study"},
    {"meshwright history measurements --chip H200 --outcome ok --order fastest",
     "measured runs of a chip"},
    {"meshwright history calibrations --chip H200", "what they taught about the chip"},
    {"meshwright history export --framework megatron-core", "measurements as JSON lines"},
    {"meshwright history import runs.jsonl --validate-only", "what an import would store"},
    {"meshwright history import train.log --format megatron --from run.sh --cluster c.yaml",
     "the measured steps of a job from its log and its script"},
    {"meshwright history backup", "a copy of the store beside it"},
    {"meshwright study create --server host:7070 --model m.yaml --workload w.yaml --cluster c.yaml",
     "a study on a server, without waiting for it"},
    {"meshwright study watch study-0123456789ab --server host:7070", "its progress"},
    {"meshwright study show study-0123456789ab", "a study of the local store with its answer"},
    {"meshwright study list --page-size 10", "the ten newest studies"},
    {"meshwright study plans study-0123456789ab", "the plans that it ranked"},
    {"meshwright study trials study-0123456789ab --order fastest", "the plans that it ran"},
    {"meshwright study attempts study-0123456789ab --trial 1", "the jobs of a trial"},
    {"meshwright study update study-0123456789ab --name baseline --label team=nlp",
     "a name and a label for a study"},
    {"meshwright study diff study-0123456789ab study-ba9876543210", "what differs between two"},
    {"meshwright study resume study-0123456789ab", "to go on after a stop"},
    {"meshwright study cancel study-0123456789ab", "to end a study with its best plan so far"},
    {"meshwright job report --study study-0123456789ab --outcome ok --step-time 2.41",
     "the measured step of a launched plan, in seconds"},
    {"meshwright job report --file reports.jsonl", "many reports at once"},
    {"meshwright job list --chip H200", "reports beside what was expected"},
    {"meshwright calibrate --chip H200 --measurements m.json --name ours --folder chips",
     "a chip file from microbenchmarks"},
    {"meshwright calibrate --chip H200 --measurements m.json --name ours",
     "the same without a file"},
    {"meshwright model list --cost-models models", "vendors' cost models of a folder"},
    {"meshwright model show acme --cost-models models", "how one describes itself"},
    {"meshwright model check acme --cost-models models", "whether it keeps the contract"},
    {"meshwright chip list", "all chips, also those that lack figures"},
    {"meshwright chip show H200", "the figures of a chip with their sources"},
    {"meshwright server info", "versions, frameworks and strategies of this program"},
    {"meshwright server info --server host:7070", "the same of a server"},
    {"meshwright dashboard", "the dashboard at http://127.0.0.1:8080/"},
    {"meshwright dashboard --http 127.0.0.1:0 --db history.db", "another store, on any free port"},
    {"meshwright report study-0123456789ab --html study.html", "a study as one file to send"},
    {"meshwright report study-0123456789ab --html - > study.html", "the same through a pipe"},
    {"meshwright completion bash > ~/.local/share/bash-completion/completions/meshwright",
     "completion in bash, from the next shell on"},
    {"meshwright completion fish > ~/.config/fish/completions/meshwright.fish", "the same in fish"},
    {"meshwright man tune | man -l -", "the manual page of a command"},
    {"meshwright man --folder man1", "all manual pages as files"},
});

bool IsOf(std::string_view line, std::string_view command) {
  if (!line.starts_with(command)) return false;
  line.remove_prefix(command.size());
  return line.empty() || line.front() == ' ';
}

}  // namespace

std::vector<Example> ExamplesOf(std::string_view command) {
  std::vector<Example> found;
  for (const Example& example : kExamples) {
    if (IsOf(example.line, command)) found.push_back(example);
  }
  return found;
}

std::vector<Example> AllExamples() { return {kExamples.begin(), kExamples.end()}; }

}  // namespace meshwright
