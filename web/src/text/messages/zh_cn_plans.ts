// 按维度查看方案等页面的文字，其余见 zh_cn.ts。
import type { Message } from '../text';
import type { enPlans } from './en_plans';

export const zhCNPlans: Record<keyof typeof enPlans, Message> = {
  'list.comma': '、',
  'tab.dimensions': '维度',
  'dimensions.title': '按维度查看方案',
  'dimensions.sentence': '共 {count} 个方案，每步用时从 {least} 到 {most}，差别在于：{dimensions}。',
  'dimensions.narrowed': '已选中其中 {count} 个；最快的是{name}，用时 {time}。',
  'dimensions.none': '没有选中任何方案。',
  'dimensions.few': '这项研究排名的方案不足两个，无从比较。',
  'dimensions.chosen': '已选中',
  'dimensions.other': '未选中',
  'dimensions.chosenTitle': '选中的方案，最快者在前',
  'dimensions.narrow': '选择方案',
  'dimensions.hint': '只有每个维度的取值都已勾选的方案才会被选中。在图中沿坐标轴拖出一段范围有同样的作用；点击该轴即可取消。',
  'dimensions.count': '共 {total} 个方案，已选中 {count} 个。',
  'dimensions.cut': '共 {total} 个，此处列出前 {count} 个。',
  'dimensions.listCut': '此处显示这项研究的前 {count} 个方案。',
  'dimensions.all': '全部选中',
  'dimensions.atLeast': '不低于',
  'dimensions.atMost': '不超过',
  'field.recomputed_layers': '重计算层数',
  'importance.title': '各维度的影响程度',
  'importance.sentence': '在选中的 {count} 个方案（不含基线）中，单独解释步时最多的维度是{name}：占其方差的 {share}。',
  'importance.none': '无法判断任何维度：选中的方案太少，或它们的步时都相同。',
  'importance.dimension': '维度',
  'importance.share': '解释的方差',
  'importance.values': '取值个数',
  'importance.measure': '每次按一个维度的取值将方案分组。条形表示这种单因素分组的 ε²：组间差异占步时方差的比例，并扣除同样多的分组偶然能解释的部分。各维度相互关联，因此这些比例会重叠，相加不一定是 100 %。搜索只保留最快的方案，它们之间的规律不一定适用于整个空间。',
};
