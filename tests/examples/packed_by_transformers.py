"""Stock models of transformers on packed blocks compute what they compute on each text alone."""

import torch
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM

from bload import BlockLoader, from_dataset

SIZES = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
TEXTS = [torch.randint(5, 40, (n,), generator=torch.manual_seed(n)) for n in (7, 3, 12, 1, 9, 5, 8)]


def batches(**options):
    return BlockLoader(from_dataset(TEXTS, length=len), t_max=16, batch_slots=32, **options)


def gradients(model, losses):
    model.zero_grad()
    sum(losses).backward()
    return [value.grad.clone() for value in model.parameters()]


def check_equal(model, row, alone):
    """The loss of a row, and gradients of a sum of losses, by all labels."""
    count = sum(int((labels != -100).sum()) for labels in alone["labels"])
    packed = model(**row, num_items_in_batch=count).loss
    texts = zip(alone["input_ids"], alone["labels"], strict=True)
    ways = [
        model(input_ids=tokens[None], labels=labels[None], num_items_in_batch=count).loss
        for tokens, labels in texts
        if len(tokens) > 1
    ]
    torch.testing.assert_close(packed, sum(ways))
    for one, other in zip(gradients(model, [packed]), gradients(model, ways), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-8)


for attention in ("eager", "sdpa"):
    options = {"num_attention_heads": 4, "attn_implementation": attention, "use_cache": False}
    config = LlamaConfig(**SIZES, **options)
    llama = LlamaForCausalLM(config).double()
    for batch in batches():
        items = [TEXTS[number] for number in batch.segments.sequence_S.tolist()]
        row = batch.transformers(flash_attn=True, seq_idx=True)
        collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)
        wanted = collate([{"input_ids": item} for item in items], return_tensors="pt")
        assert {*row} == {*wanted}
        for key, value in wanted.items():
            assert torch.equal(torch.as_tensor(row[key]), torch.as_tensor(value)), key
        labels = [torch.cat([item.new_tensor([-100]), item[1:]]) for item in items]
        for rows in (False, True):
            alone = {"input_ids": items, "labels": labels}
            check_equal(llama, batch.transformers(rows=rows), alone)

# A rank without a block: a loss of 0 and gradients of 0.
*_, filler = batches(rank=5, world_size=6)
assert not len(filler.segments)
loss = llama(**filler.transformers(flash_attn=True), num_items_in_batch=10).loss
assert loss == 0
assert all((value == 0).all() for value in gradients(llama, [loss]))
