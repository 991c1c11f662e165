#!/usr/bin/env python
# coding: utf-8

# # Duty roster
# 
# Who is on duty is drawn by *lot*.

# In[1]:


people = ["Ann", "Bo"]


def draw(seed):
    # the lot
    return people[seed % 2]

print(draw(1))


# ## Trouble
# 
# A name that is not on the list raises an error.

# In[2]:


people.index("Cy")


# In[3]:


import base64
from IPython.display import Image, display

pixel = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
display(Image(pixel, format="gif"))
{"Ann": 1}

End of the roster.