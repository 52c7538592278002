#include "orchestrator/report/matrix_texts.h"

namespace sweep::report {

namespace {

constexpr MatrixTexts kEnglish{
    .title = "Matrix summary",
    .totals = "entries: {}; jobs to dispatch: {}; points: {}",
    .in_progress = "jobs in progress, not dispatched: {}",
    .per_runner = "Jobs per runner",
    .changes = "Changes against the base",
    .research = "Research-only entries",
    .acceptance = "Acceptance settings",
    .open = "In progress and unresolved",
    .warnings = "Warnings",
    .job_note =
        "A job is a row of the job matrix, a point one concurrency of it. GPU-hours are an upper bound from the time "
        "limits that recipes state; without a stated limit they are unknown.",
    .change_totals = "points added: {}; removed: {}; changed: {}",
    .no_change = "no point differs from the base",
    .more = "further rows, not shown: {}",
    .runner = "runner",
    .gpu = "GPU",
    .jobs = "jobs",
    .points = "points",
    .evaluated = "evaluated",
    .waiting = "in progress",
    .gpus_a_job = "GPUs per job",
    .gpu_hours = "GPU-hours",
    .entry = "entry",
    .entries = "entries",
    .topologies = "topologies",
    .recipe = "recipe",
    .added = "added",
    .removed = "removed",
    .changed = "changed",
    .fields = "what changed",
    .authorization = "authorised by",
    .deviations = "deviations",
    .method = "method",
    .drafts = "draft tokens",
    .source = "source",
    .length = "acceptance length",
    .what = "state",
    .unknown = "unknown",
    .unknown_of = "unknown for {} of the jobs, at most {} for the others",
    .not_stated = "not stated",
    .is_in_progress = "in progress: planned, not dispatched",
    .unresolved = "recipes that are not in this checkout: {} ({})",
    .nothing = "none",
};

constexpr MatrixTexts kChinese{
    .title = "矩阵概览",
    .totals = "{} 个条目，待派发 {} 个作业，{} 个测试点",
    .in_progress = "另有 {} 个作业处于进行中状态，不会派发",
    .per_runner = "各运行器的作业",
    .changes = "相对基准版本的变化",
    .research = "仅供研究的条目",
    .acceptance = "接受长度设置",
    .open = "进行中与未解析",
    .warnings = "警告",
    .job_note =
        "作业是作业矩阵的一行，测试点是其中的一个并发数。GPU "
        "小时数是按配方中写明的时限得出的上界；未写明时限时为未知。",
    .change_totals = "新增 {} 个测试点，删除 {} 个，变更 {} 个",
    .no_change = "测试点与基准版本相同",
    .more = "另有 {} 行未显示",
    .runner = "运行器",
    .gpu = "GPU",
    .jobs = "作业",
    .points = "测试点",
    .evaluated = "评测",
    .waiting = "进行中",
    .gpus_a_job = "每作业 GPU 数",
    .gpu_hours = "GPU 小时",
    .entry = "条目",
    .entries = "条目",
    .topologies = "拓扑数",
    .recipe = "配方",
    .added = "新增",
    .removed = "删除",
    .changed = "变更",
    .fields = "变更内容",
    .authorization = "授权",
    .deviations = "偏离项",
    .method = "方法",
    .drafts = "草稿 token 数",
    .source = "来源",
    .length = "接受长度",
    .what = "状态",
    .unknown = "未知",
    .unknown_of = "{} 个作业未知，其余至多 {}",
    .not_stated = "未写明",
    .is_in_progress = "进行中：只规划，不派发",
    .unresolved = "{} 个配方不在此检出中（{}）",
    .nothing = "无",
};

}  // namespace

const MatrixTexts& texts_of(Language language) {
  return language == Language::kChinese ? kChinese : kEnglish;
}

}  // namespace sweep::report
